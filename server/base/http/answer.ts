/** Writes answers to uWebSockets.js: whole answers, and those that close the connection without reading the rest of the request. */
import type { HttpResponse } from 'uWebSockets.js';
import { STATUS_CODES } from 'node:http';

/**
 * What happens to the connection after the answer.
 * `keep`: stays open for the next request, unless the process drains.
 * `last`: closes. The answer waits until all bytes received with the request are parsed; a further request among them closes the
 * connection without an answer.
 * `cut`: closes before anything after the head is parsed.
 */
export type ConnectionEnding = 'keep' | 'last' | 'cut';

export const statusLines = Object.fromEntries(
  Object.entries(STATUS_CODES).map(([code, text]) => [code, `${code} ${text}`]),
);
/** The start of each status's head, up to the value of content-type. */
const headStarts = Object.fromEntries(
  Object.entries(statusLines).map(([code, line]) => [code, `${line}\r\ncontent-type: `]),
);
/** Statuses whose answers have neither a body nor a Content-Length. */
const bodiless = new Set([204, 304]);
/** Cork buffer of uWebSockets.js: smaller answers are buffered and sent after all received bytes are parsed. */
const CORK_BYTES = 16_384;
const padding = ' '.repeat(CORK_BYTES);

/**
 * Writes a whole answer. Returns false if the socket has not taken all of it; then call `writeRest`.
 * @param fields the value of content-type, followed by all other fields. They are written with the status, because each call into
 * uWebSockets.js costs 0.3 us, and an ingest answer has six fields.
 * @param closes not for an answer without a body, see answerHeadAndClose
 */
export function writeAnswer(
  res: HttpResponse,
  status: number,
  fields: string,
  body: string | Uint8Array,
  isHead: boolean,
  closes: boolean,
): boolean {
  const bodyBytes = Buffer.byteLength(body);
  const content = typeof body === 'string' ? inUtf8(body, bodyBytes) : body;
  let taken = true;
  res.cork(() => {
    res.writeStatus(headStarts[status]! + fields);
    // With a length, even undefined, uWebSockets.js would expect a body, and the connection could not carry another request.
    if (bodiless.has(status)) res.endWithoutBody();
    else if (isHead) res.writeHeader('content-length', String(bodyBytes)).endWithoutBody();
    // Closes the connection after everything is sent, or 10 s after the client stopped reading.
    else if (closes) res.end(content, true);
    // tryEnd costs 0.4 us more than end, which would buffer everything that the client does not read.
    else taken = res.tryEnd(content, bodyBytes)[0];
  });
  return taken;
}

/**
 * Text in a form that uWebSockets.js sends as UTF-8. On Node 24, version 3.0.6 sends a string with characters up to U+00FF in Latin-1, so text
 * beyond ASCII is encoded here.
 * @param bytes length of the text in UTF-8
 */
export function inUtf8(text: string, bytes: number): string | Uint8Array {
  return bytes === text.length ? text : Buffer.from(text);
}

/**
 * Sends the rest of the answer as the client reads. uWebSockets.js disconnects a client that has not read for 10 s.
 * @param onTaken called when the socket has taken the whole answer.
 */
export function writeRest(res: HttpResponse, body: string | Uint8Array, onTaken: () => void): void {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  res.onWritable((offset) => {
    const [taken] = res.tryEnd(bytes.subarray(offset), bytes.length);
    if (taken) onTaken();
    return taken;
  });
}

/**
 * Sends an answer of the ending `cut`, and closes the connection before returning. Call it before the request handler returns:
 * uWebSockets.js then drops the bytes that it has buffered after the head, and the kernel drops those that follow.
 * `end(body, true)` does not work here. It parses the bytes of the same segment first: a request among them is served and the
 * connection stays open, or the error page of uWebSockets.js replaces the answer.
 * `close` drops the cork buffer, so trailing spaces, which JSON allows, make the answer too long for the buffer.
 * A sender that keeps writing gets a reset in most cases (bench/NOTES.md).
 * @param fields the value of content-type, followed by all other fields.
 */
export function answerAndClose(res: HttpResponse, status: number, fields: string, json: string): void {
  const body = json + padding;
  // uWebSockets.js appends a line end to the value. It counts as part of the body.
  const bodyBytes = Buffer.byteLength(body) + 2;
  res.cork(() => {
    res.writeStatus(statusLines[status]!);
    res.writeHeader(
      'content-type',
      `${fields}\r\ndate: ${new Date().toUTCString()}\r\nconnection: close\r\ncontent-length: ${bodyBytes}\r\n\r\n${body}`,
    );
  });
  res.close();
}

/**
 * Sends an answer without a body and closes the connection. Call it in a turn of its own, when nothing else is corked. If the kernel does
 * not take all bytes, the rest is dropped, as are earlier answers that the client has not read.
 * `endWithoutBody` cannot close: with a length the connection waits for a body, on Node 20 without a time limit.
 * @param fields the value of content-type, followed by all other fields.
 * @param body what GET would be answered; null: a stream, whose length is not known.
 */
export function answerHeadAndClose(
  res: HttpResponse,
  status: number,
  fields: string,
  body: string | Uint8Array | null,
): void {
  const length = body === null || bodiless.has(status) ? '' : `\r\ncontent-length: ${Buffer.byteLength(body)}`;
  res.cork(() => {
    res.writeStatus(statusLines[status]!);
    // uWebSockets.js appends a line end, so this is the whole head.
    res.writeHeader('content-type', `${fields}\r\ndate: ${new Date().toUTCString()}\r\nconnection: close${length}\r\n`);
  });
  res.close();
}
