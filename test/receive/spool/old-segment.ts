/** Segment files as release 0.1 wrote them: without a key. */
import { createHash } from 'node:crypto';
import { columns, encodeFrame, FRAME_OVERHEAD_BYTES } from '../../../server/receive/spool/segment.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';

export function encodeOldHead(): Buffer {
  const list = columns.join(',');
  const length = Buffer.alloc(2);
  length.writeUInt16BE(list.length);
  return sealed(Buffer.concat([Buffer.from('WEIRSPL1'), length, Buffer.from(list)]));
}

export function encodeOldFrame(rows: readonly EventRow[]): Buffer {
  const payload = encodeFrame(rows).subarray(FRAME_OVERHEAD_BYTES);
  const sizes = Buffer.alloc(8);
  sizes.writeUInt32BE(payload.length);
  sizes.writeUInt32BE(rows.length, 4);
  return sealed(Buffer.concat([Buffer.from('f5c3a1e90d57b286', 'hex'), sizes]), payload);
}

function sealed(head: Buffer, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const sum = createHash('sha256').update(head).update(payload).digest().subarray(0, 8);
  return Buffer.concat([head, sum, payload]);
}
