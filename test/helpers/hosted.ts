/** A serving process in hosted mode with a real provider, and browsers of both. */
import { type Overrides, startTestApp, type TestApp } from './app.ts';
import { API_AUDIENCE, type ProviderOptions, TestProvider } from './oidc-provider.ts';
import { type Page, WebClient } from './web-client.ts';

/** Default PUBLIC_URL; test apps listen elsewhere. */
export const PUBLIC_URL = 'http://127.0.0.1:8080';
export const CALLBACK = `${PUBLIC_URL}/oidc/callback`;

export interface HostedApp {
  app: TestApp;
  provider: TestProvider;
  browser(): WebClient;
  /** From the first request of a new browser to the response of the callback. */
  signIn(login: string, browser?: WebClient): Promise<Page>;
  stop(): Promise<void>;
}

/** @param providerListens false: the provider is unavailable at the start */
export async function startHostedApp(
  options: Partial<ProviderOptions>,
  { providerListens = true, ...overrides }: Overrides & { providerListens?: boolean } = {},
): Promise<HostedApp> {
  const provider = await TestProvider.start(
    { redirectUris: [CALLBACK], people: {}, ...options },
    { listens: providerListens },
  );
  const app = await startTestApp({
    AUTH_MODE: 'hosted',
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: provider.clientId,
    OIDC_CLIENT_SECRET: provider.clientSecret,
    OIDC_AUDIENCE: API_AUDIENCE,
    ...overrides,
  });
  const browser = () => new WebClient({ [PUBLIC_URL]: app.url });
  return {
    app,
    provider,
    browser,
    async signIn(login, at = browser()) {
      const start = await at.open(`${PUBLIC_URL}/oidc/start`);
      return at.open(await provider.logIn(at, start.location!, login, CALLBACK));
    },
    async stop() {
      await app.stop();
      await provider.stop();
    },
  };
}
