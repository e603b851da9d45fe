/** Code that claims deliveries and acknowledges them: the start of an agent, in several languages. */
import type { Install } from '../../base/http/client-package.ts';
import { renderSample, type Sample } from './render.ts';

/**
 * @param api URL of the API, FRONTEND_PUBLIC_API_URL. The credential is read from WEIR_CREDENTIAL.
 * @param install the client package; null: the page shows no address of it
 */
export function consumeSamples(api: string, install: Install | null): Sample[] {
  const values = { api, install };
  return (['curl', 'node', 'python'] as const).map((name) => renderSample('consume', name, values));
}
