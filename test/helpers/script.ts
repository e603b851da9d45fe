/** Scripts that run modules of the server in a process of their own. Node 20 does not run TypeScript, and dist/ contains programs only. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { onTestFinished } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

const build = `
  import { mkdirSync, writeFileSync } from 'node:fs';
  import { dirname } from 'node:path';
  import { bundle } from ${JSON.stringify(join(root, 'server/operate/setup/build.mjs'))};
  const [source] = process.argv.slice(1);
  for (const { path, content } of await bundle(process.cwd(), [source], { chunks: dirname(source) })) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  process.exit(0);`;

/**
 * Bundles a script until the test ends and returns its file, for `node FILE`.
 * @param code a module in TypeScript; imports of the project start with `#`, e.g. `#server/base/files/lock.ts`
 */
export async function builtScript(code: string): Promise<string> {
  // Below dist/, so that the script finds packages, views and migrations; a name with a dot survives a build.
  const folder = await mkdtemp(join(root, 'dist/.test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const source = join(folder, 'script.ts');
  await writeFile(source, code.replaceAll(/(['"])#(server|workers)\//g, `$1${root}/$2/`));
  // In a process of its own: the threads of the bundler would keep the test process alive.
  execFileSync(process.execPath, ['--input-type=module', '--eval', build, relative(root, source)], {
    cwd: root,
    stdio: 'inherit',
  });
  return source.replace(/\.ts$/, '.js');
}
