import { expect, test } from 'vitest';
import { SampleRates } from '../../../server/receive/rejections/sample-rates.ts';

/** How many of each choice `times` requests get. */
function choices(
  rates: SampleRates,
  times: number,
  nowMs: number,
  webhookId = 'a',
  client: (i: number) => string = () => 'one',
) {
  const counts = { stored: 0, stored_if_first: 0, sampled_out: 0 };
  for (let i = 0; i < times; i++) counts[rates.choose(webhookId, 'mismatch', client(i), nowMs)]++;
  return counts;
}

test('a webhook: 10 requests at once are stored, 50 more are diagnosed, then one a second', () => {
  const rates = new SampleRates();
  expect(choices(rates, 60, 0)).toEqual({ stored: 10, stored_if_first: 50, sampled_out: 0 });
  expect(choices(rates, 1, 0)).toEqual({ stored: 0, stored_if_first: 0, sampled_out: 1 });
  expect(choices(rates, 1, 999)).toEqual({ stored: 0, stored_if_first: 0, sampled_out: 1 });
  expect(choices(rates, 2, 1_000)).toEqual({ stored: 1, stored_if_first: 0, sampled_out: 1 });
});

test('all webhooks together: 100 requests at once, then five a second', () => {
  const rates = new SampleRates();
  choices(rates, 60, 0, 'a');
  expect(choices(rates, 41, 0, 'b')).toEqual({ stored: 10, stored_if_first: 30, sampled_out: 1 });
  for (const webhook of ['a', 'b', 'c', 'd', 'e', 'f']) rates.choose(webhook, 'mismatch', 'one', 0);
  const after = ['a', 'b', 'c', 'd', 'e', 'f'].map((webhook) => rates.choose(webhook, 'mismatch', 'one', 1_000));
  expect(after.filter((choice) => choice !== 'sampled_out')).toHaveLength(5);
});

test('the first of a minute with its webhook, verdict and client is diagnosed whatever the others send', () => {
  const rates = new SampleRates();
  choices(rates, 1_000, 0);
  expect(rates.choose('a', 'mismatch', 'two', 0)).toBe('stored_if_first');
  expect(rates.choose('a', 'mismatch', 'two', 0)).toBe('sampled_out');
  expect(rates.choose('a', 'missing', 'two', 0)).toBe('stored_if_first');
  choices(rates, 1_000, 60_000);
  expect(rates.choose('a', 'mismatch', 'two', 60_000)).toBe('stored_if_first');
});

test('a flood from many clients gets no more than the reserve', () => {
  const rates = new SampleRates();
  choices(rates, 100, 0);
  const flood = choices(rates, 1_000, 0, 'a', (i) => String(i));
  expect(flood).toEqual({ stored: 0, stored_if_first: 60, sampled_out: 940 });
});
