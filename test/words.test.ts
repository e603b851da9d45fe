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
  ['spoil(?:s|t|ed|ing)?', 'break'],
  ['unborn', 'unknown, future'],
  ['forgo(?:es)?', 'turn off'],
  ['(?:un)?heard', 'received, announced'],
  ['(?:is|are) none(?!:)', 'is not one, is absent, was not found'],
  ['(?<!there )(?:is|are) no(?= )(?! (?:longer|stronger)\\b)', 'is not a'],
  // The npm registry has a package of this name by another author, which npx would download.
  ['npx weir(?!`)', 'npx --no weir'],
];
const banned = new RegExp(`(?<![\\w#])(?:${replacements.map(([word]) => `(${word})`).join('|')})(?!\\w)`, 'gi');

/** A comment that begins with a fragment: its subject is missing. */
const fragments = /(?:\/\*\*?|\/\/|--|<% \/\*) (?:Of|Else|The same (?:of|for|in|as|by|without|with)|Only of)\b[^\n]*/g;

/** Paths of files and folders. In test/, comments, titles and declared names are checked, since other texts are data. */
const texts = [
  'server',
  'workers',
  'views',
  'bench',
  'k6',
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'Dockerfile',
  'compose.yaml',
  'compose.failover.yaml',
  'compose.scale.yaml',
  'compose.secrets.yaml',
  'containers',
];
/** Measurements of earlier releases. */
const exceptions = ['bench/results/'];

function filesIn(path: string): string[] {
  if (/\.\w+$|^Dockerfile$/.test(path)) return [path];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`)
    .filter((file) => !exceptions.some((exception) => file.startsWith(exception)));
}

/** The text with the words of its identifiers apart: `forgoTheDisk` becomes `forgo The Disk`. Lines stay. */
function apart(text: string): string {
  return text.replace(/(?<=[a-z0-9])(?=[A-Z])|_/g, ' ');
}

/** Returns `path:line: word (write: …)` for each banned word of a text. @param firstLine number of its first line */
function bannedIn(path: string, text: string, firstLine = 1): string[] {
  const split = apart(text);
  return [...split.matchAll(banned)].map((match) => {
    const line = firstLine + split.slice(0, match.index).split('\n').length - 1;
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

/** Names that the text of a file declares, and the numbers of their lines. */
function declaredIn(text: string): { name: string; line: number }[] {
  return [...text.matchAll(/\b(?:const|let|function\*?|class|type|interface) ([\w$]+)/g)].map((match) => ({
    name: match[1]!,
    line: text.slice(0, match.index).split('\n').length,
  }));
}

/** Returns `path:line: comment` for each comment of a text that begins with a fragment. */
function fragmentsIn(path: string, text: string): string[] {
  return [...text.matchAll(fragments)].map(
    (match) => `${path}:${text.slice(0, match.index).split('\n').length}: ${match[0]}`,
  );
}

test('no title and no declared name of a test has a banned word', () => {
  const found = filesIn('test')
    .filter((file) => file.endsWith('.ts') && file !== 'test/words.test.ts')
    .flatMap((file) => {
      const text = readFileSync(file, 'utf8');
      const titles = file.endsWith('.test.ts') ? titlesIn(text) : [];
      return [
        ...titles.flatMap(({ title, line }) => bannedIn(file, title, line)),
        ...declaredIn(text).flatMap(({ name, line }) => bannedIn(file, name, line)),
      ];
    });
  expect(found).toEqual([]);
});

test('no comment begins with a fragment', () => {
  const files = ['server', 'workers', 'views', 'bench', 'k6', 'test'].flatMap(filesIn);
  const found = files
    .filter((file) => /\.(ts|mjs|js|sql|lua|eta)$/.test(file) && file !== 'test/words.test.ts')
    .flatMap((file) => fragmentsIn(file, readFileSync(file, 'utf8')));
  expect(found).toEqual([]);
});

test.each([
  ['/** Of the waiters, from before the look. */', 1],
  ['  // The same of the second id in the path.', 1],
  ['-- Of these, those that were not settled', 1],
  ['/** Number of waiters before the query ran. */', 0],
  ['/** The same JSON as other serializers write it. */', 0],
  ['const url = "https://Of.example";', 0],
])('the comment %s has %i fragments', (text, count) => {
  expect(fragmentsIn('a.ts', text)).toHaveLength(count);
});

test('a banned word is reported with its file and line', () => {
  expect(bannedIn('a.ts', 'one\nIs it Mended, or\nmade anew? He recommends it.')).toEqual([
    'a.ts:2: Mended (write: fix)',
    'a.ts:3: anew (write: again)',
  ]);
});

test.each([
  ['forgoTheDisk', 'forgo'],
  ['isInForce', 'In Force'],
  ['nobodyKnows', 'nobody'],
  ['told_at', 'told'],
])('the identifier %s is reported for its word %s', (name, word) => {
  expect(bannedIn('a.ts', name)).toEqual([expect.stringMatching(`^a\\.ts:1: ${word} `)]);
});
