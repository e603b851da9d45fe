/** Payloads of `weir send`: files byte for byte, GitHub's example payloads, or a small default. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { extname, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { whyUnreadable } from '../../base/files/text.ts';
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { jsonText } from '../../model/signatures/json-bytes.ts';
import { type Signed, signRequest } from '../../model/signatures/sign.ts';

export interface Payload {
  body: Buffer;
  contentType: string;
  /** GitHub event name for the header that GitHub sends; null for other payloads. */
  githubEvent: string | null;
}

/** A payload with a function that signs one request. It throws CannotSign. */
export type SignedPayload = Payload & { sign: () => Pick<Signed, 'headers' | 'body'> };

const JSON_TYPE = 'application/json';
const contentTypes: Record<string, string> = {
  '.json': JSON_TYPE,
  '.ndjson': 'application/x-ndjson',
  '.txt': 'text/plain; charset=utf-8',
};

/**
 * Content type for a file extension, case-insensitive; `application/octet-stream` for unknown extensions. Standard input has none, so its
 * content decides whether it is JSON.
 */
function contentTypeOf(file: string, body: Buffer): string {
  if (file === '-' && isJson(body)) return JSON_TYPE;
  return contentTypes[extname(file).toLowerCase()] ?? 'application/octet-stream';
}

function isJson(body: Buffer): boolean {
  try {
    JSON.parse(jsonText(body));
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the payloads in sending order: files, then examples; the default payload when neither is given. Throws
 * CommandError (usage) that names a file that cannot be read.
 * @param files paths relative to the working directory; `-` is standard input, at most once
 */
export async function readPayloads(
  files: readonly string[],
  githubExamples: boolean,
  io: CommandIo,
): Promise<Payload[]> {
  if (files.filter((file) => file === '-').length > 1)
    throw new CommandError('- (standard input) was given more than once, but it can be read only once.', 2);
  const payloads: Payload[] = [];
  for (const file of files) {
    const body = await readBytes(file, io);
    payloads.push({ body, contentType: contentTypeOf(file, body), githubEvent: null });
  }
  if (githubExamples) payloads.push(...readGithubExamples());
  return payloads.length > 0 ? payloads : [defaultPayload];
}

const defaultPayload: Payload = {
  body: Buffer.from(JSON.stringify({ message: 'Hello from weir send' })),
  contentType: JSON_TYPE,
  githubEvent: null,
};

async function readBytes(file: string, io: CommandIo): Promise<Buffer> {
  if (file !== '-')
    return readFile(resolve(io.directory, file)).catch((error: NodeJS.ErrnoException) => {
      throw new CommandError(`${file} cannot be read: ${whyUnreadable(error)}.`, 2);
    });
  return buffer(io.stdin);
}

/**
 * Reads all examples from the npm package @octokit/webhooks-examples. They are 4 MB of JSON, so they are loaded on demand, and left out
 * of the client package. Throws CommandError.
 */
function readGithubExamples(): Payload[] {
  const load = createRequire(import.meta.url);
  let events: { name: string; examples: unknown[] }[];
  try {
    events = load('@octokit/webhooks-examples');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    const fix = 'run the command where Weir is installed, or name files with payloads';
    throw new CommandError(`the client package does not contain the examples of GitHub; ${fix}.`, 2);
  }
  return events.flatMap(({ name, examples }) =>
    examples.map((example) => ({
      body: Buffer.from(JSON.stringify(example)),
      contentType: JSON_TYPE,
      githubEvent: name,
    })),
  );
}

/**
 * Signs each request by the scheme of a sender, with its own id and the time of the request.
 * @param key the secret, or the private key in PEM
 */
export function signed(payload: Payload, definition: SchemeDefinition, key: Buffer, url: string): SignedPayload {
  const { body } = payload;
  return {
    ...payload,
    sign: () => signRequest(definition, key, { body, method: 'POST', url, id: randomUUID(), timeMs: Date.now() }),
  };
}

/**
 * Headers of one request. Each GitHub request has its own delivery id, which a retry keeps: GitHub lets receivers detect
 * duplicates by this id.
 */
export function requestHeaders(payload: Payload, signed: Record<string, string>): Record<string, string> {
  const headers: Record<string, string> = {
    'Content-Type': payload.contentType,
    'User-Agent': payload.githubEvent === null ? 'weir-send' : 'GitHub-Hookshot/weir-send',
    ...signed,
  };
  if (payload.githubEvent !== null) {
    headers['X-GitHub-Event'] = payload.githubEvent;
    headers['X-GitHub-Delivery'] = randomUUID();
  }
  return headers;
}
