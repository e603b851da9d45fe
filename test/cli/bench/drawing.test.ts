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

test('the bars of the SVG are in proportion to the figures', () => {
  const svg = drawSvg(runs, 'figures');
  expect([...svg.matchAll(/H([\d.]+)v16H60z/g)].map(([, end]) => Number(end) - 60)).toEqual([240, 360, 480]);
  expect(svg).toContain('>2,000</text>');
});
