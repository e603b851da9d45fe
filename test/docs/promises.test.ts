/** The table of promises is complete, and names tests that exist. `--reporter=verbose` prints it: promise, test, tier. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { titlesIn } from '../helpers/titles.ts';
import { isLong } from '../tools/tiers.mjs';
import { documents as pages, root } from './documents.ts';
import { documentPromises, exceptions, failureContract, type Tests } from './promises.ts';

const documents = Object.values(pages).join('\n');

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

/** The documents without generated regions (tables.ts) and code blocks. */
const prose = oneLine(
  documents
    .replace(/<!-- ([\w-]+):begin -->[\s\S]*?<!-- \1:end -->/g, '')
    .replace(/^ *```[\s\S]*?^ *```$/gm, '')
    .replace(/^ {4}.*$/gm, ''),
);
const [, list = ''] = /^Weir guarantees the following, each tested:\n\n((?:[- ] .*\n)+)/m.exec(documents) ?? [];
/** Without the bold titles of the list. */
const security = oneLine(list.replace(/^- (?:\*\*[^*]+\.\*\*)?/gm, ''));

const quotes = [...Object.keys(documentPromises), ...Object.keys(exceptions)];
/** What no entry and no exception quotes. */
const unquoted = (text: string) => quotes.reduce((rest, quote) => rest.replaceAll(quote, '…'), text);
const absolute = /\b(?:exactly|never|at least once)\b/i;

const guarantees = Object.entries(failureContract).flatMap(([fault, holds]) =>
  Object.entries(holds).map(([what, tests]) => [`${fault}: ${what}`, tests] as const),
);
const rows = [...guarantees, ...Object.entries(documentPromises)].flatMap(([promise, tests]) =>
  tests.map(([file, title]) => [promise, `test/${file}`, title, tierOf(file)] as const),
);

function tierOf(file: string): string {
  return isLong(`test/${file}`) ? 'npm run test:all' : 'npm test';
}

test.each(rows)('%s > %s: %s (%s)', (_promise, file, title) => {
  const titles = titlesIn(readFileSync(join(root, file), 'utf8')).filter((found) => found.title.includes(title));
  expect(titles).toHaveLength(1);
});

describe('the README and the guides', () => {
  test('has each quoted statement, and each is under Security or has one of the words', () => {
    expect(quotes.filter((quote) => !prose.includes(quote))).toEqual([]);
    expect(quotes.filter((quote) => !security.includes(quote) && !absolute.test(quote))).toEqual([]);
  });

  test('has no statement under Security that is not quoted', () => {
    expect(security).toContain('Signatures are compared');
    expect(unquoted(security)).toMatch(/^[… ]+$/);
  });

  test('has no other sentence with one of the words', () => {
    const sentences = unquoted(prose).split(/(?<=[.:]) /);
    expect(sentences.filter((sentence) => absolute.test(sentence))).toEqual([]);
  });
});

test('each statement has a test, and is quoted once', () => {
  const untested = Object.entries(documentPromises).filter(([, tests]) => tests.length === 0);
  expect(untested).toEqual([]);
  expect(quotes.filter((quote) => quotes.some((other) => other !== quote && other.includes(quote)))).toEqual([]);
  expect(new Set(quotes).size).toBe(quotes.length);
});

test.each(guarantees)('%s: has a test of npm test and one of test/faults', (_what, tests: Tests) => {
  expect(tests.some(([file]) => !isLong(`test/${file}`))).toBe(true);
  expect(tests.some(([file]) => file.startsWith('faults/'))).toBe(true);
});
