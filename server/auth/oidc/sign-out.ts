/** Sign-out at the provider too (OpenID Connect RP-Initiated Logout 1.0). */
import * as oidc from 'openid-client';
import { Refused } from '../../http/refused.ts';
import type { Provider } from './provider.ts';

/**
 * Where a browser that was signed out of Weir may sign out of the provider, which sends it back to the pages. Null: the provider
 * has no such place, or is away, which keeps nobody from signing out here.
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
