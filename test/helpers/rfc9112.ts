/** A strict parser of a connection's bytes by RFC 9112, independent of Weir's code: the oracle of the framing fuzz test. */

interface OracleRequest {
  method: string;
  target: string;
  body: string;
  chunked: boolean;
}

export interface Reading {
  /** Complete and well-formed requests, up to the first fault. */
  requests: OracleRequest[];
  /** The bytes after them. */
  rest: 'nothing' | 'incomplete' | 'malformed';
}

/** Thrown only inside this file. */
class Fault extends Error {
  readonly kind: 'incomplete' | 'malformed';
  constructor(kind: 'incomplete' | 'malformed') {
    super(kind);
    this.kind = kind;
  }
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** Accepts any bytes as method and target: they do not affect the framing. */
const requestLine = /^([^ ]*) ([^ ]+) HTTP\/1\.[01]$/;
const fieldLine = new RegExp(`^(${token}):[ \\t]*(.*?)[ \\t]*$`, 's');
const quoted = '"(?:[^"\\\\\\x00-\\x08\\x0a-\\x1f\\x7f]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"';
/** Section 7.1: spaces are allowed around the semicolon and the equals sign. */
const chunkLine = new RegExp(
  `^([0-9A-Fa-f]+)((?:[ \\t]*;[ \\t]*${token}(?:[ \\t]*=[ \\t]*(?:${token}|${quoted}))?)*)$`,
);

/** @param bytes all bytes of a client, one character a byte */
export function readConnection(bytes: string): Reading {
  const requests: OracleRequest[] = [];
  const cursor = new Cursor(bytes);
  try {
    while (!cursor.atEnd) requests.push(readRequest(cursor));
    return { requests, rest: 'nothing' };
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    return { requests, rest: fault.kind };
  }
}

class Cursor {
  readonly #bytes: string;
  #at = 0;
  constructor(bytes: string) {
    this.#bytes = bytes;
  }
  get atEnd(): boolean {
    return this.#at === this.#bytes.length;
  }
  /** Reads up to the CRLF of the line and skips it. A bare CR or LF, or NUL, is a fault. */
  line(): string {
    const end = this.#bytes.indexOf('\r\n', this.#at);
    const line = this.#bytes.slice(this.#at, end < 0 ? undefined : end);
    // The last byte may be the CR of an incomplete CRLF.
    if (/[\n\0]|\r(?!$)/.test(line) || (end >= 0 && line.includes('\r'))) throw new Fault('malformed');
    if (end < 0) throw new Fault('incomplete');
    this.#at = end + 2;
    return line;
  }
  take(count: number): string {
    const taken = this.#bytes.slice(this.#at, this.#at + count);
    if (taken.length < count) throw new Fault('incomplete');
    this.#at += count;
    return taken;
  }
}

function readRequest(cursor: Cursor): OracleRequest {
  const [, method, target] = requestLine.exec(cursor.line()) ?? malformed();
  const fields = readFields(cursor);
  const valuesOf = (name: string) => fields.filter(([given]) => given === name).map(([, value]) => value);
  const lengths = valuesOf('content-length');
  const codings = valuesOf('transfer-encoding');
  if (lengths.length + codings.length > 1) malformed();
  if (codings.length === 1) {
    if (codings[0]!.toLowerCase() !== 'chunked') malformed();
    return { method: method!, target: target!, body: readChunks(cursor), chunked: true };
  }
  if (lengths.length === 1 && !/^\d+$/.test(lengths[0]!)) malformed();
  return { method: method!, target: target!, body: cursor.take(Number(lengths[0] ?? 0)), chunked: false };
}

function readFields(cursor: Cursor): [name: string, value: string][] {
  const fields: [string, string][] = [];
  for (let line = cursor.line(); line !== ''; line = cursor.line()) {
    const [, name, value] = fieldLine.exec(line) ?? malformed();
    fields.push([name!.toLowerCase(), value!]);
  }
  return fields;
}

function readChunks(cursor: Cursor): string {
  let body = '';
  for (;;) {
    const [, size] = chunkLine.exec(cursor.line()) ?? malformed();
    const bytes = Number.parseInt(size!, 16);
    if (bytes === 0) break;
    body += cursor.take(bytes);
    if (cursor.take(2) !== '\r\n') malformed();
  }
  readFields(cursor);
  return body;
}

function malformed(): never {
  throw new Fault('malformed');
}
