/** A serving process in hosted mode beside a real provider, and browsers before both. */
import { type Overrides, startTestApp, type TestApp } from './app.ts';
import { API_AUDIENCE, type ProviderOptions, TestProvider } from './oidc-provider.ts';
import { type Page, WebClient } from './web-client.ts';

/** What PUBLIC_URL is without the setting; test apps listen elsewhere. */
export const PUBLIC_URL = 'http://127.0.0.1:8080';
export const CALLBACK = `${PUBLIC_URL}/oidc/callback`;

export interface HostedApp {
  app: TestApp;
  provider: TestProvider;
  browser(): WebClient;
  /** From a fresh browser's first request to the answer of the callback. */
  signIn(login: string, browser?: WebClient): Promise<Page>;
  stop(): Promise<void>;
}

/** @param providerListens false: it is away at the start. */
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
