/** A copy of the build that a test can break or modify. */
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

export interface Installation {
  directory: string;
  /** Its weir.js. */
  entry: string;
  /** Replaces the code of a module, e.g. `server/operate/process/app.ts`, in its bundle, in one step. The change must have an effect. */
  replace(module: string, code: (built: string) => string): Promise<void>;
  /** Restores all modules. */
  repair(): Promise<void>;
  remove(): Promise<void>;
}

/** @param directory location of the copy; by default a temporary one */
export async function installWeir(directory?: string): Promise<Installation> {
  const home = directory ?? (await mkdtemp(join(tmpdir(), 'weir-i-')));
  await mkdir(home, { recursive: true });
  // Without the scripts of other tests, which remove them.
  const filter = (path: string) => !basename(path).startsWith('.test-');
  await cp(join(root, 'dist'), join(home, 'dist'), { recursive: true, filter });
  await cp(join(root, 'package.json'), join(home, 'package.json'));
  await symlink(join(root, 'node_modules'), join(home, 'node_modules'));
  const replaced = new Set<string>();
  const write = async (file: string, text: string) => {
    const path = join(home, 'dist', file);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  };
  return {
    directory: home,
    entry: join(home, 'dist/server/cli/weir.js'),
    replace: async (module, code) => {
      for (const { file, before, built, after } of await findModule(join(home, 'dist/server'), module)) {
        const changed = code(built);
        if (changed === built) throw new Error(`the replacement does not change ${module}`);
        replaced.add(file);
        await write(join('server', file), `${before}${changed}${after}`);
      }
    },
    repair: async () => {
      for (const file of replaced)
        await write(join('server', file), await readFile(join(root, 'dist/server', file), 'utf8'));
      replaced.clear();
    },
    remove: () => rm(home, { recursive: true }),
  };
}

/**
 * Finds a module by the comment with its path, which the bundler writes before the code of each module. It is in several bundles when
 * dist/ also has the files of the build before.
 */
async function findModule(folder: string, module: string) {
  const found = [];
  for (const file of await readdir(folder, { recursive: true })) {
    if (!file.endsWith('.js')) continue;
    const bundle = await readFile(join(folder, file), 'utf8');
    const start = bundle.indexOf(`\n// ${module}\n`);
    if (start === -1) continue;
    const next = bundle.slice(start + 1).search(/\n\/\/ \S+\.[jt]s\n|\nexport \{/);
    const end = next === -1 ? bundle.length : start + 1 + next;
    found.push({ file, before: bundle.slice(0, start), built: bundle.slice(start, end), after: bundle.slice(end) });
  }
  if (found.length === 0) throw new Error(`no bundle contains ${module}; run: npm run build`);
  return found;
}
