/** The documents have the tables of the code, and links that lead somewhere. `npm run docs` writes them by this test. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { settingTable } from '../../server/base/settings/table.ts';
import { buildProgram } from '../../server/cli/command/program.ts';
import { commands } from '../../server/cli/commands.ts';
import type { Table } from '../../server/model/table.ts';
import { webhookFields } from '../../server/model/webhooks.ts';
import { contentsOf, documents, fillRegion, headingsOf, regionsOf, root, withoutCode } from './documents.ts';
import { envExample, tables } from './tables.ts';

const { stdin, stdout, stderr } = process;
const program = await buildProgram(commands, { environment: {}, directory: root, stdin, stdout, stderr });
const paths = Object.keys(documents);

function rendered(page: string): string {
  const filled = Object.entries(tables).reduce((text, [name, table]) => fillRegion(text, name, table(program)), page);
  return fillRegion(filled, 'contents', contentsOf(filled));
}

describe('the documents match the tables (fix: npm run docs)', () => {
  test.each(paths)('%s', async (path) => {
    await expect(rendered(documents[path]!)).toMatchFileSnapshot(join(root, path));
  });

  test('.env.example', async () => {
    await expect(envExample()).toMatchFileSnapshot(join(root, '.env.example'));
  });

  test('each table is in one document', () => {
    const names = Object.values(documents).flatMap(regionsOf);
    expect(names.filter((name) => name in tables).sort()).toEqual(Object.keys(tables).sort());
  });

  test('.env.example names every setting, all commented out', () => {
    const lines = envExample().split('\n');
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
  return linksOf(documents[path]!).filter((link) => {
    const [file, anchor] = link.split('#') as [string, string?];
    const target = file === '' ? path : relative(root, resolve(root, dirname(path), file));
    if (!existsSync(join(root, target))) return true;
    return (
      anchor !== undefined &&
      !headingsOf(readFileSync(join(root, target), 'utf8')).some((heading) => heading.anchor === anchor)
    );
  });
}

test.each(paths)('every link of %s leads to a file or a heading', (path) => {
  expect(linksOf(documents[path]!).length).toBeGreaterThan(0);
  expect(brokenLinks(path)).toEqual([]);
});

test('each section of a guide that a form names is a heading of it', () => {
  const named = Object.values(webhookFields as Table).flatMap(({ form }) => form?.guide ?? []);
  expect(named.length).toBeGreaterThan(0);
  const missing = named.filter((guide) => {
    const [page, section] = guide.split('#');
    return !headingsOf(documents[`views/docs/${page}.md`]!).some(({ anchor }) => anchor === section);
  });
  expect(missing).toEqual([]);
});

test('each package that runs has its reason in the guide Development', () => {
  const table = documents['views/docs/development.md']!.split('## Packages\n')[1]!.split('\n\n')[1]!;
  const named = [...table.matchAll(/^\| (`.+?) \|/gm)].flatMap(([, cell]) => cell!.replaceAll('`', '').split(', '));
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect(Object.keys(dependencies).filter((name) => !named.includes(name))).toEqual([]);
  expect(named.filter((name) => !(name in dependencies))).toEqual([]);
});

test('the README has at most 120 lines, and the two commands in its first 20', () => {
  const lines = documents['README.md']!.split('\n');
  expect(lines.length).toBeLessThanOrEqual(121);
  expect(lines.slice(0, 20).join('\n')).toMatch(/npm start[\s\S]*npm test/);
});

test('the README leads to every guide', () => {
  const targets = linksOf(documents['README.md']!).map((link) => link.split('#')[0]);
  expect(paths.filter((path) => path !== 'README.md' && !targets.includes(path))).toEqual([]);
});
