import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const server = join(root, 'server');

/** The wings of server/, each above those that it may import. `receive` and `deliver` do not know each other. */
const order = [['cli'], ['operate'], ['pages'], ['manage'], ['receive', 'deliver'], ['store'], ['base'], ['model']];

/** Imports of files of server/ by files of server/, types included. */
const imports = readdirSync(server, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .flatMap((path) =>
    importsOf(join(server, path))
      .map((target) => relative(server, target))
      .filter((target) => !target.startsWith('..'))
      .map((target): Import => [path, target]),
  );

type Import = readonly [from: string, to: string];

/** Files that a file imports, also on demand. */
function importsOf(path: string): string[] {
  const found = readFileSync(path, 'utf8').matchAll(/(?:from |import\()'(\.[^']+)'/g);
  return [...found].map(([, target]) => join(dirname(path), target!));
}

/** The pairs that are part of a circle. */
function circles(pairs: readonly Import[]): string[] {
  let left = pairs.filter(([from, to]) => from !== to);
  // Only in a circle does each one import one of them and is imported by one.
  for (let before = -1; left.length !== before; ) {
    before = left.length;
    const importing = new Set(left.map(([from]) => from));
    const imported = new Set(left.map(([, to]) => to));
    left = left.filter(([from, to]) => importing.has(to) && imported.has(from));
  }
  return [...new Set(left.map((pair) => pair.join(' > ')))];
}

const wingOf = (path: string) => path.split('/')[0]!;
/** `store/queries` of `store/queries/agents.ts`; `store` of a file beside the rooms. */
const roomOf = (path: string) => path.split('/').slice(0, -1).slice(0, 2).join('/');

test('server/ has these wings and the entry point of a serving process', () => {
  expect(readdirSync(server).sort()).toEqual([...order.flat(), 'main.ts'].sort());
});

test('wings import only those below them', () => {
  const rank = new Map(order.flatMap((wings, index) => wings.map((wing) => [wing, index] as const)));
  const between = imports.filter(([from, to]) => wingOf(from) !== wingOf(to) && from !== 'main.ts');
  expect(between.length).toBeGreaterThan(1_000);
  const wrong = between.filter(([from, to]) => rank.get(wingOf(from))! >= rank.get(wingOf(to))!);
  expect(wrong.map((pair) => pair.join(' > '))).toEqual([]);
});

test('the rooms of a wing import each other in one direction only', () => {
  const rooms = imports.map(([from, to]): Import => [roomOf(from), roomOf(to)]);
  expect(rooms).toContainEqual(['receive/ingest', 'receive/spool']);
  expect(circles(rooms)).toEqual([]);
});

test('no two files import each other, not even through others', () => {
  expect(circles(imports)).toEqual([]);
});

test('bench/ imports nothing of the command line', () => {
  const bench = join(root, 'bench');
  const files = readdirSync(bench, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const found = files.flatMap((path) => importsOf(join(bench, path)).map((target) => relative(root, target)));
  expect(found).toContain('server/operate/load/processor.ts');
  expect(found.filter((target) => target.startsWith('server/cli/'))).toEqual([]);
});

test('thread entry points import only signatures and filters', () => {
  const workers = join(root, 'workers');
  for (const file of readdirSync(workers))
    for (const target of importsOf(join(workers, file)))
      expect(relative(server, target)).toMatch(/^model\/(signatures|filters)\//);
});

test('the client library imports only modules of Node, and these files outside of its folder', () => {
  const seen = new Set<string>();
  const visit = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const [, target] of readFileSync(join(server, path), 'utf8').matchAll(/from '([^']+)'/g)) {
      if (target!.startsWith('.')) visit(join(dirname(path), target!));
      else expect(target, path).toMatch(/^node:/);
    }
  };
  visit('deliver/client/index.ts');
  const outside = [...seen].filter((path) => roomOf(path) !== 'deliver/client').sort();
  expect(outside).toEqual([
    'base/files/build.ts',
    'base/files/text.ts',
    'base/net/keep-alive.ts',
    'base/net/loopback.ts',
    'base/net/releases.ts',
    'base/telemetry/visible.ts',
    'base/time/backoff.ts',
    'model/credential.ts',
  ]);
});

test('commands run operations: they import neither queries nor changes', () => {
  const ofCommands = imports.filter(([from]) => wingOf(from) === 'cli');
  expect(ofCommands.length).toBeGreaterThan(100);
  const wrong = ofCommands.filter(([, to]) => /^(store\/queries\/|manage\/api\/\w+\/\w+-changes\.ts$)/.test(to));
  expect(wrong.map((pair) => pair.join(' > '))).toEqual([]);
});

test('one module constructs the local administrator', () => {
  const files = readdirSync(server, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const makes = files.filter((path) => /kind: 'local'(?!; actor| })/.test(readFileSync(join(server, path), 'utf8')));
  expect(makes).toEqual(['manage/auth/local.ts']);
});
