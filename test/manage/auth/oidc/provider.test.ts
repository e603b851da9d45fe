import { expect, onTestFinished, test } from 'vitest';
import { discover, Provider } from '../../../../server/manage/auth/oidc/provider.ts';
import { CALLBACK } from '../../../helpers/hosted.ts';
import { TestProvider } from '../../../helpers/oidc-provider.ts';

test('requests to the provider are limited to 5 seconds, or to the given time', async () => {
  const provider = await TestProvider.start({ redirectUris: [CALLBACK], people: {} });
  onTestFinished(() => provider.stop());
  const { issuer, clientId, clientSecret } = provider;
  const parts = { issuer, clientId, clientSecret };
  expect((await discover(parts)).timeout).toBe(5);
  const patient = new Provider({ ...parts, requestTimeoutSeconds: 60, onChange: () => {} });
  expect((await patient.find()).config.timeout).toBe(60);
});
