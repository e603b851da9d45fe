/** Sign-out at the identity provider (OpenID Connect RP-Initiated Logout 1.0). */
import * as oidc from 'openid-client';
import { Refused } from '../../http/refused.ts';
import type { Provider } from './provider.ts';

/**
 * Returns the provider's sign-out URL for a browser that was signed out of Weir; the provider redirects back to the pages. Null:
 * the provider has no such endpoint or is unavailable. Neither prevents the sign-out from Weir.
 */
export async function signOutAddress(provider: Provider, publicUrl: string): Promise<string | null> {
  try {
    const { config } = await provider.find();
    if (config.serverMetadata().end_session_endpoint === undefined) return null;
    return oidc.buildEndSessionUrl(config, { post_logout_redirect_uri: `${publicUrl}/` }).href;
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}
