/** Client and server state their releases to each other, so that an error between different releases names the fix. */
import { release } from '../files/build.ts';
import { isSafeUrl } from './loopback.ts';

/** Field of the server's answers: the path of its client package, which contains the release. */
export const CLIENT_FIELD = 'weir-client';

/** User-Agent of requests that Weir and its clients send: `weir/RELEASE`. */
export function userAgent(): string {
  return `weir/${release()}`;
}

/** The release in the User-Agent of a client; null if it is another program. */
export function releaseOf(agent: string | undefined): string | null {
  return /^weir\/(\d[\w.-]{0,31})$/.exec(agent ?? '')?.[1] ?? null;
}

/**
 * Says in one sentence why the server may not know a call of this client, and how to install the right client; null if the server
 * has the same release, or did not state its release.
 * @param base base URL of the server's API, with a slash at the end
 * @param path value of CLIENT_FIELD
 */
export function updateOf(base: string, path: string | undefined): string | null {
  const [, file, theirs] = /^\/(client-(\d[\w.-]{0,31})-[0-9a-f]{12}\.tgz)$/.exec(path ?? '') ?? [];
  if (theirs === undefined || theirs === release()) return null;
  const releases = `This client is of release ${release()} and the server of ${theirs}`;
  // Otherwise anyone on the way could have named another package.
  if (!isSafeUrl(new URL(base))) return `${releases}: install the client of the server.`;
  return `${releases}: install the client of the server with npm install ${base}${file}.`;
}
