/** A copy of the build that a test can break or modify. */
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

export interface Installation {
  directory: string;
  /** Its weir.js. */
  entry: string;
  /** Replaces a compiled file, e.g. `server/process/app.js`, in one step; the text can be derived from the original. */
  replace(file: string, text: (built: string) => string): Promise<void>;
  /** Restores the original file. */
  repair(file: string): Promise<void>;
  remove(): Promise<void>;
}

/** @param directory location of the copy; by default a temporary one */
export async function installWeir(directory?: string): Promise<Installation> {
  const home = directory ?? (await mkdtemp(join(tmpdir(), 'weir-i-')));
  await mkdir(home, { recursive: true });
  await cp(join(root, 'dist'), join(home, 'dist'), { recursive: true });
  await cp(join(root, 'package.json'), join(home, 'package.json'));
  await symlink(join(root, 'node_modules'), join(home, 'node_modules'));
  const built = (file: string) => readFile(join(root, 'dist', file), 'utf8');
  const write = async (file: string, text: string) => {
    const path = join(home, 'dist', file);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  };
  return {
    directory: home,
    entry: join(home, 'dist/server/cli/weir.js'),
    replace: async (file, text) => write(file, text(await built(file))),
    repair: async (file) => write(file, await built(file)),
    remove: () => rm(home, { recursive: true }),
  };
}
