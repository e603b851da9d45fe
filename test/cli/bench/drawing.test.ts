import { expect, test } from 'vitest';
import { drawBars, drawSvg } from '../../../server/cli/bench/report.ts';

const runs = [
  { workers: 2, requests_per_second: 1500 },
  { workers: 1, requests_per_second: 1000 },
  { workers: 4, requests_per_second: 2000 },
];

test('bars are as long as the figures, with a mark at proportional growth where it fits', () => {
  const lines = drawBars(runs)
    .split('\n')
    .map((line) => line.replace(/█+/, (bar) => `[${bar.length}]`).replace(/ +/g, ' '));
  expect(lines).toEqual([
    'Requests/s by WORKERS; | is the first figure in proportion:',
    '1 [25] 1,000',
    '2 [38] | 1,500',
    '4 [50] 2,000',
    '',
  ]);
});

test('runs without a response are drawn', () => {
  expect(drawBars([{ workers: 1, requests_per_second: 0 }])).toContain(' 0\n');
  expect(drawSvg([{ workers: 1, requests_per_second: 0 }], '')).not.toMatch(/NaN|Infinity/);
});

test('the points of the SVG are in proportion to the figures, and the caption is text', () => {
  const svg = drawSvg(runs, 'a < b & c');
  const points = svg.match(/<polyline points="([^"]+)"/)![1]!.split(' ');
  const places = points.map((point) => point.split(',').map(Number) as [number, number]);
  const [[x1, y1], [x2, y2], [x4, y4]] = places as [[number, number], [number, number], [number, number]];
  // From the origin of the plot at 80,310.
  expect([x2 - 80, x4 - 80]).toEqual([2 * (x1 - 80), 4 * (x1 - 80)]);
  expect((310 - y2) / (310 - y1)).toBeCloseTo(1.5, 1);
  expect((310 - y4) / (310 - y1)).toBeCloseTo(2, 1);
  expect(svg).toContain('a &lt; b &amp; c');
  expect(svg).toContain('>2,000</title>');
});
