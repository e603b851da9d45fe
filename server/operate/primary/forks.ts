/** Start parameters of the serving processes: entry file, Node flags, environment and settings. */
import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Given } from '../../base/settings/gather.ts';
import type { Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import type { Setting } from '../../base/settings/values.ts';

/**
 * Path of the compiled main.js beside the path that started Weir, whose links are followed at each fork: later processes may run another
 * release. A link to weir.js itself (npx, /usr/local/bin) has no main.js beside it; the result is then `own`.
 */
export function findEntryFile(own: string, startedBy: string | undefined): string {
  const followed = join(dirname(startedBy ?? '/'), '../main.js');
  try {
    return realpathSync(followed) === own ? followed : own;
  } catch {
    return own;
  }
}

/**
 * Threads that help with short scavenges take cores from Postgres. Marking the whole heap keeps its threads: without them it stops a process
 * with 100,000 webhooks for 119 ms instead of 36. Pretenured garbage waits for a mark-compact (bench/NOTES.md).
 */
export const gcFlags = ['--no-parallel-scavenge', '--no-allocation-site-pretenuring'];

const REQUEST_LINE_BYTES = 2_048;

/** A process gets the secrets that it needs in its start order, and none in its environment. */
export const noSecrets = Object.fromEntries(
  Object.entries<Setting>(settingTable).flatMap(([name, { secret }]) => (secret ? [[name, undefined]] : [])),
);

/**
 * Changes to the environment for each serving process (figures in bench/NOTES.md). uWebSockets.js reads its limit of a request line with its
 * headers from the environment, and buffers that much of an unfinished one; its default of 4,096 bytes is below HEADER_BYTES_MAX. While
 * Postgres is frozen, connection attempts of libpq take all four threads that libuv has by default, for 5 s at a time, and the spool's
 * writes wait. glibc raises its threshold for mmap to the largest block that was freed; slabs (1 MiB) and COPY buffers (up to 8 MiB) then
 * come from the heap, which keeps their pages. @param own environment of the primary: the operator's values are kept
 */
export function processEnvironment(own: NodeJS.ProcessEnv, headerBytesMax: number): NodeJS.ProcessEnv {
  return {
    ...noSecrets,
    UWS_HTTP_MAX_HEADERS_SIZE: String(headerBytesMax + REQUEST_LINE_BYTES),
    UV_THREADPOOL_SIZE: own.UV_THREADPOOL_SIZE || '16',
    MALLOC_MMAP_THRESHOLD_: own.MALLOC_MMAP_THRESHOLD_ || '1000000',
  };
}

/** The settings as a process gets them. Unknown names stay: the build on disk may know them. Pages show only that ADMIN_PASSWORD is set. */
export function givenToProcess({ values, directory }: Given, { DATA_DIR, ADMIN_PASSWORD }: Settings): Given {
  const hidden = ADMIN_PASSWORD === undefined ? {} : { ADMIN_PASSWORD: randomBytes(24).toString('base64') };
  return { values: { ...values, DATA_DIR, ...hidden }, directory };
}

/** Configures later forks to run `entryFile`. @param user null: the user of the primary */
export function prepareForks(entryFile: string, user: { uid: number; gid: number } | null): void {
  const ids = user === null ? {} : { uid: user.uid, gid: user.gid };
  cluster.setupPrimary({
    ...ids,
    exec: entryFile,
    args: [],
    execArgv: gcFlags,
    silent: true,
    serialization: 'advanced',
  });
}
