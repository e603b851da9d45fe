import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, expect, test } from 'vitest';
import { build as buildOfTests, threadFile } from '../../../server/base/files/build.ts';
import { stateOfDist } from '../../../server/operate/setup/sources.mjs';
import { temporaryDirectory } from '../../helpers/settings.ts';

const project = fileURLToPath(new URL('../../..', import.meta.url));
let root: string;

/** A small project of the same form, built by the real scripts and the real compiler. */
beforeEach(() => {
  root = temporaryDirectory();
  cpSync(join(project, 'server/operate/setup'), join(root, 'server/operate/setup'), { recursive: true });
  symlinkSync(join(project, 'node_modules'), join(root, 'node_modules'));
  cpSync(join(project, 'tsconfig.json'), join(root, 'tsconfig.json'));
  write('package.json', '{ "type": "module" }');
  write('server/cli/weir.ts', "#!/usr/bin/env node\nimport { two } from './two.ts';\nconsole.log(two);\n");
  write('server/cli/two.ts', 'export const two: number = 2;\n');
  write('server/store/queries/all.sql', 'select 1;\n');
});

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

const build = () => spawnSync(process.execPath, ['server/operate/setup/build.mjs'], { cwd: root, encoding: 'utf8' });
const built = (path: string) => join(root, 'dist', path);

test('a build bundles, copies the files that the code reads, makes the command executable, and removes stale files', () => {
  write('dist/server/gone/gone.js', 'an earlier build made this');
  expect(stateOfDist(root)).toBe('missing');
  expect(build()).toMatchObject({ status: 0, stderr: '' });
  expect(stateOfDist(root)).toBe('fresh');
  expect(spawnSync(process.execPath, [built('server/cli/weir.js')], { encoding: 'utf8' }).stdout).toBe('2\n');
  expect(readFileSync(built('server/store/queries/all.sql'), 'utf8')).toBe('select 1;\n');
  expect(statSync(built('server/cli/weir.js')).mode & 0o111).toBe(0o111);
  expect(existsSync(built('server/gone'))).toBe(false);

  utimesSync(join(root, 'server/cli/two.ts'), new Date(), new Date());
  expect(stateOfDist(root), 'a touched file').toBe('fresh');
  write('server/store/queries/all.sql', 'select 2;\n');
  expect(stateOfDist(root), 'a changed asset').toBe('outdated');
  write('server/store/queries/all.sql', 'select 1;\n');
  expect(stateOfDist(root), 'changed back').toBe('fresh');
  rmSync(join(root, 'server/store/queries/all.sql'));
  expect(stateOfDist(root), 'a removed asset').toBe('outdated');
});

test('a build has the name of its commit, or of its sources when they differ from it', () => {
  const git = (...args: string[]) =>
    spawnSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args], { cwd: root, encoding: 'utf8' });
  const commitOfBuild = () => {
    expect(build()).toMatchObject({ status: 0, stderr: '' });
    return JSON.parse(readFileSync(built('package.json'), 'utf8')).commit as string;
  };
  write('.gitignore', 'node_modules\ndist\n');
  const archive = commitOfBuild();
  expect(archive).toMatch(/^sources-[0-9a-f]{12}$/);
  git('init');
  git('add', '.');
  git('commit', '--message', 'first');
  expect([stateOfDist(root), stateOfDist(root, { named: true })], 'now committed').toEqual(['fresh', 'outdated']);
  expect(commitOfBuild()).toBe(git('rev-parse', '--short=12', 'HEAD').stdout.trim());
  write('README.md', 'no input of a build');
  expect(stateOfDist(root, { named: true })).toBe('fresh');
  write('server/cli/two.ts', 'export const two: number = 22;\n');
  expect(commitOfBuild()).toMatch(/^sources-/);
  write('server/cli/two.ts', 'export const two: number = 2;\n');
  write('server/cli/three.ts', 'export const three: number = 3;\n');
  expect(commitOfBuild(), 'a file that is not committed').toMatch(/^sources-/);
});

test('a failed build prints the errors and the fix, and keeps the last successful one', () => {
  write('dist/server/cli/weir.js', 'the last good build');
  write('server/cli/two.ts', 'export const two: number = ;\n');
  const { status, stderr } = build();
  expect(status).toBe(1);
  expect(stderr).toMatch(/server\/cli\/two\.ts:1:28/);
  expect(stderr).toMatch(/The build failed: fix the errors above, then run: npm run build\n$/);
  expect(readFileSync(built('server/cli/weir.js'), 'utf8')).toBe('the last good build');
  expect(stateOfDist(root)).toBe('missing');

  write('server/cli/two.ts', 'export const two: number = 2;\n');
  write('server/deliver/client/tsconfig.json', '{ "compilerOptions": { "outDir": "../../../dist/client" } }');
  write('server/deliver/client/index.ts', "export const one: number = 'one';\n");
  expect(build().stderr).toMatch(/server\/deliver\/client\/index\.ts\(1,14\)/);
  expect(readFileSync(built('server/cli/weir.js'), 'utf8')).toBe('the last good build');
});

test('the files of the last build stay until the next one, for the server that runs from them', () => {
  write('server/cli/weir.ts', "import('./two.ts').then(({ two }) => console.log(two));\n");
  expect(build()).toMatchObject({ status: 0, stderr: '' });
  const chunks = () => readdirSync(built('server/chunks')).filter((name) => /^two-.*\.js$/.test(name));
  const [first] = chunks();
  write('server/cli/two.ts', 'export const two: number = 22;\n');
  expect(build()).toMatchObject({ status: 0, stderr: '' });
  expect(chunks()).toHaveLength(2);
  write('server/cli/two.ts', 'export const two: number = 222;\n');
  expect(build()).toMatchObject({ status: 0, stderr: '' });
  expect(chunks()).toHaveLength(2);
  expect(chunks()).not.toContain(first);
});

test('a thread that starts after the next build is of the build of its process', () => {
  const buildThread = (text: string) => {
    write('workers/hmac.ts', `console.log('${text}');\n`);
    expect(build()).toMatchObject({ status: 0, stderr: '' });
    const { commit } = JSON.parse(readFileSync(built('package.json'), 'utf8'));
    return built(`workers/hmac-${commit}.js`);
  };
  const say = (file: string) => spawnSync(process.execPath, [file], { encoding: 'utf8' }).stdout;
  const [first, second] = [buildThread('first'), buildThread('second')];
  expect([say(first), say(second), say(built('workers/hmac.js'))]).toEqual(['first\n', 'second\n', 'second\n']);
  expect(threadFile(built('workers'), 'hmac')).toBe(built('workers/hmac.js'));
  const own = `dist/workers/hmac-${buildOfTests().commit}.js`;
  write(own, '');
  expect(threadFile(built('workers'), 'hmac')).toBe(join(root, own));
});
