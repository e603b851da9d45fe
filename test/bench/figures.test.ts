import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { documents, figures, regions, withFigures } from '../../bench/figures.mjs';

const root = new URL('../..', import.meta.url).pathname;
const pages = documents.map((path): [string, string] => [path, readFileSync(`${root}/${path}`, 'utf8')]);

test.each(pages)('%s has the figures of the newest runs: node bench/figures.mjs', (_path, page) => {
  expect(withFigures(page)).toBe(page);
});

test('each figure and each table is in a document', () => {
  const all = pages.map(([, page]) => page).join('\n');
  for (const name of Object.keys(figures)) expect(all).toContain(`<!--=${name}-->`);
  for (const name of Object.keys(regions)) expect(all).toContain(`<!-- ${name}:begin -->\n`);
  expect(() => withFigures('<!--=unknown-->1<!--/-->')).toThrow('there is no figure unknown');
});

/** Statements of speed: what they count, or compare. */
const speed =
  /\b\d[\d,.]*(?: \(\d[^)]*\))?(?:\/s| ms| µs| times|(?: verified)? (?:events|deliveries|requests|jobs)\/s)/g;
/** Conditions of a measurement, figures of what is not speed, and those of a connection or an event alone (bench/NOTES.md). */
const given = ['100/s', '100 events/s', '3.5 times', '90,000 rows/s', '10 µs', '30 µs'];

test.each([
  ['README.md', '## Speed', '## Where'],
  ['views/docs/scaling.md', '## Scaling', '## Many'],
])('a figure of speed in %s comes from bench/results', (path, from, to) => {
  const page = readFileSync(`${root}/${path}`, 'utf8');
  const section = page.slice(page.indexOf(from), page.indexOf(to));
  const written = section.replace(/<!--=[\w-]+-->.*?<!--\/-->/gs, '');
  expect((written.match(speed) ?? []).filter((figure) => !given.includes(figure))).toEqual([]);
  expect(section.length).toBeGreaterThan(500);
});

test('a number of senders is that of the presets', () => {
  const guides = [...pages, ['views/docs/senders.md', readFileSync(`${root}/views/docs/senders.md`, 'utf8')] as const];
  for (const [path, page] of guides)
    expect([path, page.replace(/<!--=senders-->.*?<!--\/-->/g, '').match(/\b1\d\d senders/)]).toEqual([path, null]);
});
