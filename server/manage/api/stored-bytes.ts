/** Sends a stored request body. The sender chooses its type, so it is sent in a way that no browser displays or runs it. */
import type { AnswerBytes, Encoded } from './operation.ts';

const TYPE_HEADER = 'X-Weir-Content-Type';
const BYTES_TYPE = 'application/octet-stream';

/** Description for the operations that send stored bodies. */
export const storedBytes: AnswerBytes = {
  contentTypes: [BYTES_TYPE],
  headers: { [TYPE_HEADER]: 'the Content-Type of the request, as the sender gave it; absent if the request had none' },
};

/**
 * The bytes unchanged, as a download in a sandboxed origin.
 * @param contentType Content-Type of the stored request
 */
export function storedBytesReply(id: string, contentType: string | null, body: Buffer): Encoded {
  const type = headerText(contentType ?? '');
  return {
    kind: 'encoded',
    status: 200,
    contentType: BYTES_TYPE,
    content: body,
    headers: {
      'content-disposition': `attachment; filename="${id}"`,
      'content-security-policy': "sandbox; default-src 'none'",
      ...(type === '' ? {} : { [TYPE_HEADER.toLowerCase()]: type }),
    },
  };
}

/** Printable ASCII only: a line end would start another header field. */
function headerText(value: string): string {
  return value.replace(/[^ -~]/g, '?').trim();
}
