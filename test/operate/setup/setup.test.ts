import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { temporaryDirectory } from '../../helpers/settings.ts';

const project = fileURLToPath(new URL('../../..', import.meta.url));
let root: string;
let children: ChildProcess[];

beforeEach(() => {
  root = temporaryDirectory();
  children = [];
});

afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** A Node program that imports one set-up module; `lines` are its output. */
function program(module: string, code: string) {
  const text = `import * as it from ${JSON.stringify(join(project, 'server/operate/setup', module))};\n${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', text], { cwd: root });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, ended: once(child, 'exit'), nextLine: async () => (await lines.next()).value as string };
}

describe('setup.mjs', () => {
  const setUp = (...args: string[]) =>
    spawnSync(process.execPath, ['server/operate/setup/setup.mjs', ...args], { cwd: root, encoding: 'utf8' });

  beforeEach(() => {
    cpSync(join(project, 'server/operate/setup'), join(root, 'server/operate/setup'), { recursive: true });
    cpSync(join(project, 'tsconfig.json'), join(root, 'tsconfig.json'));
    writeFileSync(join(root, 'package.json'), '{ "type": "module" }');
    writeFileSync(join(root, 'package-lock.json'), '{}');
    writeFileSync(join(root, 'server/one.ts'), 'export const one: number = 1;\n');
    mkdirSync(join(root, 'node_modules'));
    for (const name of ['typescript', '@types', 'undici-types', 'uWebSockets.js'])
      symlinkSync(join(project, 'node_modules', name), join(root, 'node_modules', name));
    const lock = createHash('sha256').update('{}').digest('hex');
    const installed = JSON.stringify({ lock, abi: process.versions.modules, arch: process.arch });
    writeFileSync(join(root, 'node_modules/.weir-setup.json'), installed);
  });

  test('builds once, then does nothing and prints nothing', () => {
    expect(setUp()).toMatchObject({ status: 0, stdout: 'Building dist/ ...\n', stderr: '' });
    expect(setUp()).toMatchObject({ status: 0, stdout: '', stderr: '' });
  });

  test('keeps the packages of a running Weir when others cannot be installed', () => {
    expect(setUp()).toMatchObject({ status: 0 });
    // npm refuses this file, as it fails without a network.
    writeFileSync(join(root, 'package-lock.json'), '{ "lockfileVersion": 3, "packages": { "": {} } }');
    writeFileSync(join(root, 'package.json'), '{ "type": "module", "dependencies": { "absent": "1.0.0" } }');
    const refused = setUp();
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain('npm ci failed');
    expect(readdirSync(join(root, 'node_modules'))).toContain('typescript');
    expect(readdirSync(join(root, 'dist'))).not.toContain('.install');
  });

  test('refuses an unknown option', () => {
    const stderr = '--test is not an option of the set-up; the only option is --tests.\n';
    expect(setUp('--test')).toMatchObject({ status: 2, stdout: '', stderr });
  });
});

describe('the lock', () => {
  const hold =
    "await it.withLock('.', async () => { console.log('held'); await new Promise((free) => process.stdin.once('data', free)); });";

  test('allows one set-up at a time, and the next one prints that it waits', async () => {
    const first = program('lock.mjs', `${hold} process.exit();`);
    expect(await first.nextLine()).toBe('held');
    const second = program('lock.mjs', `${hold} process.exit();`);
    expect(await second.nextLine()).toBe('Another set-up is running in this directory; waiting for it.');
    first.child.stdin.write('done');
    expect(await second.nextLine()).toBe('held');
  });

  test('is released by a killed holder', async () => {
    const first = program('lock.mjs', hold);
    expect(await first.nextLine()).toBe('held');
    first.child.kill('SIGKILL');
    await first.ended;
    expect(await program('lock.mjs', hold).nextLine()).toBe('held');
  });
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'a program that the set-up runs is ended by %s with all its children',
  async (signal) => {
    const { child, ended, nextLine } = program(
      'run.mjs',
      "await it.leaveCleanly(() => it.run('sh', ['-c', 'sleep 1000 & echo $!; wait']));",
    );
    const grandchild = Number(await nextLine());
    child.kill(signal);
    const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
    expect(await ended).toEqual([codes[signal], null]);
    await vi.waitFor(() => expect(() => process.kill(grandchild, 0)).toThrow('ESRCH'), { timeout: 20_000 });
  },
);
