/** Scripts that run modules of the server in a process of their own. Node 20 does not run TypeScript, and dist/ contains programs only. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { onTestFinished } from 'vitest';
import { bundle } from '../../server/setup/build.mjs';

const root = resolve(import.meta.dirname, '../..');

/**
 * Bundles a script until the test ends and returns its file, for `node FILE`.
 * @param code a module in TypeScript; imports of the project start with `#`, e.g. `#server/db/lock.ts`
 */
export async function builtScript(code: string): Promise<string> {
  // Below dist/, so that the script finds packages, views and migrations; a name with a dot survives a build.
  const folder = await mkdtemp(join(root, 'dist/.test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const source = join(folder, 'script.ts');
  await writeFile(source, code.replaceAll(/(['"])#(server|workers)\//g, `$1${root}/$2/`));
  const files = await bundle(root, [relative(root, source)]);
  for (const { path, content } of files) {
    const file = join(root, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  return source.replace(/\.ts$/, '.js');
}
