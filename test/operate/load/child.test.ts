import { expect, test } from 'vitest';
import { watchResident } from '../../../server/operate/load/child.ts';

test('memory is also sampled at the end of work that is shorter than the interval of samples', async () => {
  const { result, peakBytes } = await watchResident([process.pid], async () => 'done');
  expect(result).toBe('done');
  expect(peakBytes).toBeGreaterThan(1_000_000);
});
