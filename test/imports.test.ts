import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const server = fileURLToPath(new URL('../server', import.meta.url));

/** Imports between the folders of server/ (or its top files). */
function importsBetweenRooms(): [from: string, to: string][] {
  const files = readdirSync(server, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  return files.flatMap((path) => {
    const found = readFileSync(join(server, path), 'utf8').matchAll(/from '(\.[^']+)'/g);
    const targets = [...found].map(([, target]) => relative(server, join(server, dirname(path), target!)));
    return targets
      .filter((target) => !target.startsWith('..'))
      .map((target): [string, string] => [roomOf(path), roomOf(target)])
      .filter(([from, to]) => from !== to);
  });
}

function roomOf(path: string): string {
  return path.split('/')[0]!;
}

test('the top of server/ has only its entry point and the table of errors', () => {
  expect(readdirSync(server).filter((name) => name.endsWith('.ts'))).toEqual(['errors.ts', 'main.ts']);
});

test('folders and top files of the server import each other in one direction only', () => {
  let left = importsBetweenRooms();
  expect(left).toContainEqual(['ingest', 'db']);
  // Only in a cycle does each folder import one of them and is imported by one.
  for (let before = -1; left.length !== before; ) {
    before = left.length;
    const importing = new Set(left.map(([from]) => from));
    const imported = new Set(left.map(([, to]) => to));
    left = left.filter(([from, to]) => importing.has(to) && imported.has(from));
  }
  expect([...new Set(left.map((pair) => pair.join(' > ')))]).toEqual([]);
});

test('thread entry points import only signatures and filters', () => {
  const workers = fileURLToPath(new URL('../workers', import.meta.url));
  for (const file of readdirSync(workers))
    for (const [, target] of readFileSync(join(workers, file), 'utf8').matchAll(/from '(\.[^']+)'/g))
      expect(target).toMatch(/^\.\.\/server\/(signatures|filters)\//);
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
  visit('client/index.ts');
  const outside = [...seen].filter((path) => roomOf(path) !== 'client').sort();
  expect(outside).toEqual([
    'auth/credential.ts',
    'files/build.ts',
    'net/backoff.ts',
    'net/keep-alive.ts',
    'net/loopback.ts',
    'net/releases.ts',
    'telemetry/visible.ts',
  ]);
});

test('commands run operations: they import neither queries nor services', () => {
  const files = readdirSync(join(server, 'cli'), { recursive: true, encoding: 'utf8' });
  const found = files
    .map((name) => `cli/${name}`)
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => {
      const imports = readFileSync(join(server, path), 'utf8').matchAll(/from '(\.[^']+)'/g);
      return [...imports].map(([, target]) => [path, join(dirname(path), target!)] as const);
    });
  expect(found.length).toBeGreaterThan(100);
  const wrong = found.filter(([, target]) => /^(db\/queries\/|api\/\w+\/service\.ts$)/.test(target));
  expect(wrong.map((pair) => pair.join(' > '))).toEqual([]);
});

test('only commands construct the local requester', () => {
  const files = readdirSync(server, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const makes = files.filter((path) => /kind: 'local'(?!; actor| })/.test(readFileSync(join(server, path), 'utf8')));
  expect(makes).toEqual(['cli/manage/local.ts']);
});
