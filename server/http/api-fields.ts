/** Header fields of every answer under /api/, including errors. */
import type { Cors } from './cors.ts';
import type { Exchange } from './exchange.ts';

/**
 * A browser that displays the JSON runs and frames nothing, and pages of other sites cannot embed it (`cors` decides on CORS requests).
 * Together with the fields of every answer, these complete OWASP's list for APIs.
 */
const FIELDS: readonly (readonly [string, string])[] = [
  ['content-security-policy', "default-src 'none'; frame-ancestors 'none'"],
  ['cross-origin-resource-policy', 'same-origin'],
];

/** Returns a function that sets the fields. Call that function before the exchange is answered. */
export function createApiFields(cors: Cors): (exchange: Exchange) => void {
  return (exchange) => {
    if (!exchange.path.startsWith('/api/')) return;
    for (const [name, value] of FIELDS) exchange.setHeader(name, value);
    cors.allow(exchange);
  };
}
