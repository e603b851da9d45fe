/** Header fields of every answer below /api/, errors of the server itself among them. */
import type { Cors } from './cors.ts';
import type { Exchange } from './exchange.ts';

/**
 * JSON is for scripts: a browser that shows it runs nothing and frames nothing, and no other site's page may embed it (requests
 * with CORS are asked by `cors` instead). With the rest that every answer has, OWASP's list for APIs is complete.
 */
const FIELDS: readonly (readonly [string, string])[] = [
  ['content-security-policy', "default-src 'none'; frame-ancestors 'none'"],
  ['cross-origin-resource-policy', 'same-origin'],
];

/** Call it before anything is answered. */
export function createApiFields(cors: Cors): (exchange: Exchange) => void {
  return (exchange) => {
    if (!exchange.path.startsWith('/api/')) return;
    for (const [name, value] of FIELDS) exchange.setHeader(name, value);
    cors.allow(exchange);
  };
}
