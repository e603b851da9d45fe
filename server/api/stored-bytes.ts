/** Sends a stored request body. The sender chooses its type, so it is sent in a way that no browser displays or runs it. */

import type { Exchange } from '../http/exchange.ts';
import { type AnswerBytes, done, type Reply } from './operation.ts';

const TYPE_HEADER = 'X-Weir-Content-Type';

/** Description for the operations that send stored bodies. */
export const storedBytes: AnswerBytes = {
  contentType: 'application/octet-stream',
  headers: { [TYPE_HEADER]: 'the Content-Type of the request, as the sender gave it; absent if the request had none' },
};

/**
 * Answers 200 with the bytes unchanged, as a download in a sandboxed origin.
 * @param contentType Content-Type of the stored request
 */
export function answerStoredBytes(exchange: Exchange, id: string, contentType: string | null, body: Buffer): Reply {
  exchange.setHeader('content-disposition', `attachment; filename="${id}"`);
  exchange.setHeader('content-security-policy', "sandbox; default-src 'none'");
  const type = headerText(contentType ?? '');
  if (type !== '') exchange.setHeader(TYPE_HEADER.toLowerCase(), type);
  exchange.answer(200, storedBytes.contentType, body);
  return done(200);
}

/** Printable ASCII only: a line end would start another header field. */
function headerText(value: string): string {
  return value.replace(/[^ -~]/g, '?').trim();
}
