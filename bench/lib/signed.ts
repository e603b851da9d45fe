/** A request that is signed once and sent again and again. */
import { createHmac, randomBytes } from 'node:crypto';

export interface SignedRequest {
  headers: Record<string, string>;
  body: string;
}

/** JSON of exactly so many bytes that does not compress much. */
export function bodyOf(bytes: number): string {
  const frame = '{"action":"opened","data":""}';
  const fill = randomBytes(bytes)
    .toString('hex')
    .slice(0, bytes - frame.length);
  return frame.replace('""', `"${fill}"`);
}

/** Headers and body as GitHub would send them. */
export function signedRequest(secret: string, body: string): SignedRequest {
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return { headers: { 'Content-Type': 'application/json', 'X-Hub-Signature-256': `sha256=${signature}` }, body };
}
