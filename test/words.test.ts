import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { titlesIn } from './helpers/titles.ts';

/** Words that are not used in this project, as regular expressions of whole words in any case, and what to write instead. */
const replacements: readonly (readonly [string, string])[] = [
  ['mend(?:s|ed|ing)?', 'fix'],
  ['anew', 'again'],
  ['afresh', 'again'],
  ['meanwhile', 'while'],
  ['(?:un)?told', 'reported, listed, shown'],
  ['in force', 'active, current'],
  ['lapse[sd]?', 'expire'],
  ['whoever', 'the user, the client'],
  ['(?:no|some)body', 'a user, a client'],
  ['for ever', 'permanently'],
  ['hands? (?:it )?on', 'pass'],
  ['amiss', 'wrong'],
  ['in the meantime', 'since, until then'],
  ['serves on', 'continue to serve'],
  ['set-up address', 'setup URL'],
  // The npm registry has a package of this name by another author, which npx would download.
  ['npx weir(?!`)', 'npx --no weir'],
];
const banned = new RegExp(`(?<![\\w#])(?:${replacements.map(([word]) => `(${word})`).join('|')})(?!\\w)`, 'gi');

/** Paths of files and folders. In test/, only titles are checked. */
const texts = ['server', 'workers', 'views', 'bench', 'k6', 'README.md', 'CHANGELOG.md', 'compose.yaml', 'Dockerfile'];
/** Measurements of earlier releases. */
const exceptions = ['bench/results/'];

function filesIn(path: string): string[] {
  if (/\.\w+$|^Dockerfile$/.test(path)) return [path];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`)
    .filter((file) => !exceptions.some((exception) => file.startsWith(exception)));
}

/** Returns `path:line: word (write: …)` for each banned word of a text. @param firstLine number of its first line */
function bannedIn(path: string, text: string, firstLine = 1): string[] {
  return [...text.matchAll(banned)].map((match) => {
    const line = firstLine + text.slice(0, match.index).split('\n').length - 1;
    const [, instead] = replacements[match.slice(1).findIndex((group) => group !== undefined)]!;
    return `${path}:${line}: ${match[0]} (write: ${instead})`;
  });
}

test.each(texts)('%s has no banned word', (path) => {
  const found = filesIn(path).flatMap((file) => {
    const text = readFileSync(file, 'utf8');
    // The changelog quotes old names of codes and members.
    return bannedIn(file, path === 'CHANGELOG.md' ? text.replace(/`[^`\n]*`/g, '') : text);
  });
  expect(found).toEqual([]);
});

test('no title of a test has a banned word', () => {
  const found = filesIn('test')
    .filter((file) => file.endsWith('.test.ts'))
    .flatMap((file) => {
      const text = readFileSync(file, 'utf8');
      return titlesIn(text).flatMap(({ title, line }) => bannedIn(file, title, line));
    });
  expect(found).toEqual([]);
});

test('a banned word is reported with its file and line', () => {
  expect(bannedIn('a.ts', 'one\nIs it Mended, or\nmade anew? He recommends it.')).toEqual([
    'a.ts:2: Mended (write: fix)',
    'a.ts:3: anew (write: again)',
  ]);
});
