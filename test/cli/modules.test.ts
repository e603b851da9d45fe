/** How many modules a command and a serving process load: each costs about 1 ms of CPU time before the first useful step. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../helpers/settings.ts';

const dist = resolve(import.meta.dirname, '../../dist');

/** URLs of the files that Node loaded, which V8 lists for its coverage. The exit code does not count, a crash does. */
function modulesOf(args: readonly string[]): string[] {
  const directory = temporaryDirectory();
  // Nothing listens on port 9.
  const env = { PATH: process.env.PATH, NODE_V8_COVERAGE: directory, DATABASE_URL: 'postgres://127.0.0.1:9/none' };
  const { stderr } = spawnSync(process.execPath, args, { cwd: directory, env, encoding: 'utf8' });
  // Node prints its version below the stack trace of an error that nothing caught.
  expect(stderr).not.toContain('Node.js v');
  const scripts = readdirSync(directory).flatMap(
    (name) => (JSON.parse(readFileSync(join(directory, name), 'utf8')) as { result: { url: string }[] }).result,
  );
  return [...new Set(scripts.map(({ url }) => url).filter((url) => /^file:.*\.[cm]?js$/.test(url)))];
}

const command = join(dist, 'server/cli/weir.js');

// 850 modules for each before the programs were bundled.
test.each([
  [['--version'], 12],
  [['--help'], 12],
  [['nonsense'], 12],
  [['scheme', 'list'], 20],
  [['send', 'http://127.0.0.1:9/in/x', '--secret', 's', '--no-wait'], 25],
  [['consume', 'http://127.0.0.1:9', '--credential-file', 'none'], 30],
  [['webhook', 'list'], 40],
])('weir %j loads at most %i', (args, max) => {
  const modules = modulesOf([command, ...args]);
  expect(modules.length).toBeGreaterThan(3);
  expect(modules.length).toBeLessThanOrEqual(max);
});

test('a command that calls Weir loads no driver of a database', () => {
  const modules = modulesOf([command, 'webhook', 'list']);
  expect(modules.filter((url) => /node_modules\/(libpq|pg|uWebSockets)/.test(url))).toEqual([]);
  const bundles = modules.map((url) => readFileSync(new URL(url), 'utf8'));
  expect(bundles.filter((code) => /^\/\/ server\/store\/(connect\/pool|embedded\/\w+)\.ts$/m.test(code))).toEqual([]);
});

test('a serving process loads at most 60, and none of what its settings do not call for', () => {
  const load = `await import(${JSON.stringify(join(dist, 'server/main.js'))}); process.exit(0);`;
  const modules = modulesOf(['--input-type=module', '--eval', load]);
  expect(modules.length).toBeGreaterThan(20);
  expect(modules.length).toBeLessThanOrEqual(60);
  const packages = new Set(
    modules.flatMap((url) =>
      // The bundler writes the path of each module before its code.
      [...readFileSync(new URL(url), 'utf8').matchAll(/^\/\/ \S*node_modules\/([\w@/-]+?)\/\S+$/gm)].map(
        ([, name]) => name!,
      ),
    ),
  );
  expect(packages).toContain('zod');
  for (const name of [
    'ioredis',
    'openid-client',
    'pino-pretty',
    'cli-progress',
    '@opentelemetry/api',
    '@opentelemetry/sdk-trace',
  ])
    expect(packages).not.toContain(name);
});
