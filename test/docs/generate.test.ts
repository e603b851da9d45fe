import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { settingTable } from '../../server/base/settings/table.ts';
import { buildWholeProgram } from '../../server/cli/command/program.ts';
import { commands } from '../../server/cli/commands.ts';
import { contentsOf, headingsOf, withoutCode } from '../../server/operate/docs/contents.ts';
import { documentPaths, envExample, renderDocuments, writeDocs } from '../../server/operate/docs/generate.ts';
import { markdownTable, replaceRegion, tables } from '../../server/operate/docs/tables.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (name: string) => readFileSync(join(root, name), 'utf8');
const { stdin, stdout, stderr } = process;
const program = await buildWholeProgram(commands, { environment: {}, directory: root, stdin, stdout, stderr });
const paths = documentPaths(root);
const pages = Object.fromEntries(paths.map((path) => [path, read(path)]));
const rendered = renderDocuments(pages, program);

describe('the documents match the tables (fix: npm run build && npm run docs)', () => {
  test.each(paths)('%s', (path) => {
    expect(pages[path]).toBe(rendered[path]);
  });

  test('.env.example', () => {
    expect(read('.env.example')).toBe(envExample());
  });

  test('and .env.example names every setting, all commented out', () => {
    const lines = read('.env.example').split('\n');
    for (const name of Object.keys(settingTable)) expect(lines.some((line) => line.startsWith(`#${name}=`))).toBe(true);
    expect(lines.filter((line) => line !== '' && !line.startsWith('#'))).toEqual([]);
  });
});

/** The targets of links to headings and files of the repository: `#ANCHOR`, `PATH` or `PATH#ANCHOR`. */
function linksOf(page: string): string[] {
  return [...withoutCode(page).matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)].map(([, target]) => target!);
}

/** Problems of the links of a document to files of the repository and to headings. */
function brokenLinks(path: string): string[] {
  return linksOf(pages[path]!).filter((link) => {
    const [file, anchor] = link.split('#') as [string, string?];
    const target = file === '' ? path : relative(root, resolve(root, dirname(path), file));
    if (!existsSync(join(root, target))) return true;
    return anchor !== undefined && !headingsOf(read(target)).some((heading) => heading.anchor === anchor);
  });
}

test.each(paths)('every link of %s leads to a file or a heading', (path) => {
  expect(linksOf(pages[path]!).length).toBeGreaterThan(0);
  expect(brokenLinks(path)).toEqual([]);
});

test('the README has at most 300 lines, and the two commands in its first 20', () => {
  const lines = read('README.md').split('\n');
  expect(lines.length).toBeLessThanOrEqual(300);
  expect(lines.slice(0, 20).join('\n')).toMatch(/npm start[\s\S]*npm test/);
});

test('the README leads to every guide', () => {
  const targets = linksOf(pages['README.md']!).map((link) => link.split('#')[0]);
  expect(paths.filter((path) => path !== 'README.md' && !targets.includes(path))).toEqual([]);
});

test('a table in no document, and one in two, are refused', () => {
  const regions = [...Object.keys(tables)].map((name) => `<!-- ${name}:begin --><!-- ${name}:end -->`);
  const [first, ...others] = regions as [string, ...string[]];
  expect(() => renderDocuments({ 'README.md': others.join('\n') }, program)).toThrow(
    'one document must have the table',
  );
  expect(() => renderDocuments({ a: regions.join('\n'), b: first }, program)).toThrow('found: a, b');
});

test('the table of contents has two levels, wraps long lines, and leaves out the title and code', () => {
  const long = 'x'.repeat(70);
  const page = `# Title\n\n## \`weir a\`: one, two\n\n### ${long}\n\n#### deep\n\n\`\`\`sh\n## no heading\n\`\`\`\n\n## B\n\n### B\n\n### C\n`;
  expect(contentsOf(page).split('\n')).toEqual([
    '- **[`weir a`: one, two](#weir-a-one-two)**:',
    `  [${long}](#${long})`,
    '- **[B](#b)**: [B](#b-1), [C](#c)',
  ]);
});

describe('a region', () => {
  test('is replaced between its markers only', () => {
    const page = 'a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n';
    expect(replaceRegion(page, 'x', 'new\n')).toBe('a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb\n');
  });

  test.each([
    ['without its beginning', 'a <!-- x:end -->'],
    ['without its end', '<!-- x:begin --> a'],
    ['with its end first', '<!-- x:end --> a <!-- x:begin -->'],
    ['that stands twice', '<!-- x:begin --><!-- x:end --><!-- x:begin --><!-- x:end -->'],
  ])('%s is refused', (_, page) => {
    expect(() => replaceRegion(page, 'x', 'new')).toThrow('<!-- x:begin --> and then <!-- x:end -->, once each');
  });

  test('escapes a bar in a table cell', () => {
    expect(markdownTable(['a'], [['b|c']])).toBe('| a |\n| --- |\n| b\\|c |\n');
  });
});

test('writing returns the changed documents, and changes nothing the second time', () => {
  const directory = mkdtempSync(join(tmpdir(), 'weir-docs-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const empty = [...Object.keys(tables), 'contents'].map((name) => `<!-- ${name}:begin --><!-- ${name}:end -->\n`);
  mkdirSync(join(directory, 'views/docs'), { recursive: true });
  for (const name of ['README.md', 'SECURITY.md', 'CONTRIBUTING.md']) writeFileSync(join(directory, name), 'short\n');
  writeFileSync(join(directory, 'views/docs/reference.md'), empty.join(''));
  expect(writeDocs(directory, program)).toEqual(['views/docs/reference.md', '.env.example']);
  expect(writeDocs(directory, program)).toEqual([]);
});
