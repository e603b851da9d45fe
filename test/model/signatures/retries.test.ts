import { expect, test } from 'vitest';
import { presets } from '../../../server/model/signatures/presets.ts';
import { losesRefused, retriesText, SOME_RETRY } from '../../../server/model/signatures/retries.ts';

test('a sender repeats requests or not, as its documentation says; otherwise it is said that this is not known', () => {
  expect(retriesText('github')).toMatch(
    /^GitHub does not repeat such requests; it sends them again on request \(https:/,
  );
  expect(retriesText('shopify')).toBe('Shopify repeats such requests 8 times over 4 hours.');
  expect(retriesText('checkr')).toBe('Whether Checkr repeats requests is not documented here.');
  for (const scheme of ['sha256', 'standard-webhooks', 'custom', 'of a newer release'])
    expect(retriesText(scheme)).toBe(SOME_RETRY);
  expect(['github', 'shopify', 'checkr', 'sha256'].map(losesRefused)).toEqual([true, false, false, false]);
});

test('every text is one short sentence', () => {
  for (const { name } of presets)
    expect([name, retriesText(name)]).toEqual([name, expect.stringMatching(/^.{20,300}\.$/)]);
});
