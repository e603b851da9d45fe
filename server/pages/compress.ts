/** Content codings (RFC 9110, section 8.4.1) of pages and assets. */
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Exchange } from '../http/exchange.ts';

type Coding = 'br' | 'gzip';

/** Smaller texts fit into one packet as they are. */
const WORTHWHILE_BYTES = 1_000;
/** Of 0 to 11: beyond 5 it takes several times as long for a few percent. */
const BROTLI_QUALITY = 5;
const brotliAsync = promisify(brotliCompress);
const gzipAsync = promisify(gzip);

/** The best coding that the client takes; null: none. */
export function acceptedCoding(exchange: Exchange): Coding | null {
  const accepted = (exchange.header('accept-encoding') ?? '').split(',').map((item) => item.trim().split(';'));
  const takes = (coding: Coding) =>
    accepted.some(([name, quality]) => name?.trim() === coding && !/^\s*q=0(\.0*)?\s*$/.test(quality ?? ''));
  return takes('br') ? 'br' : takes('gzip') ? 'gzip' : null;
}

/** Compressed in libuv's threads, so that a large page keeps no webhook waiting. Null: send it as it is. */
export async function compress(text: string, exchange: Exchange): Promise<{ coding: Coding; bytes: Buffer } | null> {
  const coding = text.length < WORTHWHILE_BYTES ? null : acceptedCoding(exchange);
  if (coding === null) return null;
  const params = { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY };
  return { coding, bytes: coding === 'br' ? await brotliAsync(text, { params }) : await gzipAsync(text) };
}
