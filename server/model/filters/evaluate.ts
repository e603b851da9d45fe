/** Evaluates filters on events, in a thread (workers/filter.ts) and in commands. Keeps only compiled expressions and the last body. */
import { readableBody } from '../signatures/gzip.ts';
import { bufferOf, jsonText } from '../signatures/json-bytes.ts';
import { readStoredHeaders } from '../signatures/stored-headers.ts';
import { type Compiled, compileFilter, failureText } from './expression.ts';

/** An event as a filter sees it. `filter`: index into the filters of the task. */
export interface CandidateEvent {
  filter: number;
  /** Name of the webhook. */
  webhook: string;
  /** Field lines as stored. */
  headers: Uint8Array;
  contentType: string | null;
  eventType: string | null;
  /** Size of the body. */
  bytes: number;
  /** Null: the filter does not read it. */
  body: Uint8Array | null;
}

/** `undecided`: not evaluated yet. `failed`: the filter gave no verdict, so the event is delivered. Numbers, for a shared array. */
export const verdicts = { undecided: 0, passed: 1, excluded: 2, failed: 3 } as const;
export type FilterVerdict = (typeof verdicts)[keyof typeof verdicts];

export interface Judgement {
  verdict: FilterVerdict;
  /** Why the filter failed; null if it did not fail. */
  failure: string | null;
  /** The filter does not compile, so it fails on every event. */
  broken?: true;
}

/**
 * Larger bodies are not parsed, and the filter fails on them. Parsing cannot be interrupted: 16 MiB of `[],` blocked the thread for more
 * than 36 s, and then the process.
 */
const BODY_BYTES_MAX = 4_194_304;

/** Number of compiled expressions in memory. When it is reached, all are dropped. */
const COMPILED_MAX = 1_000;
const compiled = new Map<string, Compiled>();

/** With a filter that does not compile, every event is delivered: an earlier version accepted the filter when it was saved. */
export function judgeEvent(text: string, event: CandidateEvent): Judgement {
  const filter = compiledOf(text);
  if (filter.kind === 'fault') return { verdict: verdicts.failed, failure: filter.fault.detail, broken: true };
  if (event.body !== null && event.body.length > BODY_BYTES_MAX)
    return { verdict: verdicts.failed, failure: `the body is larger than ${BODY_BYTES_MAX} bytes` };
  try {
    const headers = readStoredHeaders(bufferOf(event.headers).toString());
    const passes = filter.passes({
      headers: readable(headers) as Record<string, string>,
      content_type: event.contentType,
      bytes: BigInt(event.bytes),
      body: event.body === null ? null : parsed(jsonText(decompressed(event.body, headers['content-encoding']))),
      webhook: event.webhook,
      event_type: event.eventType,
    });
    return { verdict: passes ? verdicts.passed : verdicts.excluded, failure: null };
  } catch (error) {
    return { verdict: verdicts.failed, failure: failureText(error) };
  }
}

function compiledOf(text: string): Compiled {
  let filter = compiled.get(text);
  if (filter === undefined) {
    filter = compileFilter(text);
    if (compiled.size >= COMPILED_MAX) compiled.clear();
    compiled.set(text, filter);
  }
  return filter;
}

/** The last body, since several filters may read it. */
let last: { body: Uint8Array; readable: Uint8Array } | null = null;

function decompressed(body: Uint8Array, contentEncoding: string | undefined): Uint8Array {
  if (last?.body !== body) last = { body, readable: readableBody(bufferOf(body), contentEncoding) };
  return last.readable;
}

/** Null: the text is not JSON. */
function parsed(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  return mayName.test(text) ? withReadable(value) : value;
}

/** Matches a member of this name, including one written with an escape sequence. */
const mayName = /constructor"|\\u00/;

/** The library reads the type of an object from its `constructor`, which a member of this name hides. The members of a Map hide nothing. */
function readable(members: object): object {
  return Object.hasOwn(members, 'constructor') ? new Map(Object.entries(members)) : members;
}

function withReadable(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const parts = value as Record<string, unknown>;
  for (const name of Object.keys(parts)) parts[name] = withReadable(parts[name]);
  return readable(parts);
}
