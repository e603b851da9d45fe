import { expect, test } from 'vitest';
import { quantile } from '../../server/live/quantile.ts';

const bounds = [1, 2, 4];

test.each([
  ['nothing observed', [0, 0, 0, 0], 0.5, null],
  ['the middle of one bucket', [0, 10, 0, 0], 0.5, 1.5],
  ['the first bucket begins at zero', [10, 0, 0, 0], 0.5, 0.5],
  ['the end of a bucket', [5, 5, 0, 0], 0.5, 1],
  ['the last share', [5, 0, 5, 0], 1, 4],
  ['empty buckets are passed over', [0, 0, 4, 0], 0.25, 2.5],
  ['beyond the largest bound', [0, 0, 0, 3], 0.99, 4],
  ['no share', [0, 3, 0, 0], 0, 1],
])('%s', (_what, counts, share, expected) => {
  expect(quantile(bounds, counts, share)).toBe(expected);
});
