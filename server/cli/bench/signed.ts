/** A request that is signed once and sent repeatedly. */
import { createHmac, randomBytes } from 'node:crypto';

export interface SignedRequest {
  headers: Record<string, string>;
  body: string;
}

/** JSON of exactly `bytes` bytes that hardly compresses. */
export function benchBody(bytes: number): string {
  const frame = '{"action":"opened","data":""}';
  const fill = randomBytes(bytes)
    .toString('hex')
    .slice(0, bytes - frame.length);
  return frame.replace('""', `"${fill}"`);
}

/** Headers and body in GitHub's format. */
export function signedRequest(secret: string, body: string): SignedRequest {
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return { headers: { 'Content-Type': 'application/json', 'X-Hub-Signature-256': `sha256=${signature}` }, body };
}

/** The same request as the bytes of an HTTP/1.1 POST to 127.0.0.1 over a keep-alive connection. */
export function requestBytes(port: number, path: string, { headers, body }: SignedRequest): Buffer {
  const fields = { Host: `127.0.0.1:${port}`, ...headers, 'Content-Length': Buffer.byteLength(body) };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
}
