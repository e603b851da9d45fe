import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commands } from '../../server/cli/commands.ts';
import { buildWholeProgram } from '../../server/cli/program.ts';
import { anchorsUsed, contentsOf, headingsOf } from '../../server/docs/contents.ts';
import { envExample, renderReadme, writeDocs } from '../../server/docs/generate.ts';
import { markdownTable, replaceRegion, tables } from '../../server/docs/tables.ts';
import { settingTable } from '../../server/settings/table.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (name: string) => readFileSync(join(root, name), 'utf8');
const { stdin, stdout, stderr } = process;
const program = await buildWholeProgram(commands, { environment: {}, directory: root, stdin, stdout, stderr });

describe('the documents match the tables (fix: npm run build && npm run docs)', () => {
  test('README.md', () => {
    expect(read('README.md')).toBe(renderReadme(read('README.md'), program));
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

test('every link within the README leads to a heading', () => {
  const anchors = new Set(headingsOf(read('README.md')).map(({ anchor }) => anchor));
  const used = anchorsUsed(read('README.md'));
  expect(used.length).toBeGreaterThan(50);
  expect(used.filter((anchor) => !anchors.has(anchor))).toEqual([]);
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
  writeFileSync(join(directory, 'README.md'), empty.join(''));
  expect(writeDocs(directory, program)).toEqual(['README.md', '.env.example']);
  expect(writeDocs(directory, program)).toEqual([]);
});
