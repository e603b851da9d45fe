/** Where the files of this build are. The code runs as bundles below dist/ and, in tests, from its sources. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

let folder: string | undefined;
let known: Build | undefined;

/** The folder that contains `server/`, `workers/` and `views/` of this build: dist/, or the project when its sources run. */
export function buildFolder(): string {
  folder ??= nearestAbove(import.meta.dirname, (directory) => existsSync(join(directory, 'views')));
  return folder;
}

/** Path of a file of this build, such as `server/main.js` or `views/assets/icon.svg`. */
export function builtFile(path: string): string {
  return join(buildFolder(), path);
}

export interface Build {
  /** Such as `1.0.0`; `unknown` when another project has bundled this code. */
  version: string;
  /** The commit, or `sources-` and a hash of the sources when a checkout differs from it; `unknown` when the sources run. */
  commit: string;
}

/** Version and commit, from the package.json that the build writes into dist/ and into the client package. */
export function build(): Build {
  known ??= readBuild();
  return known;
}

/**
 * Path of the program of a thread. Its name contains the commit, and the next build keeps the file: a thread that starts after that build
 * still runs the program of its process, whose messages it reads. @param workers folder of the programs
 */
export function threadFile(workers: string, name: string): string {
  const own = join(workers, `${name}-${build().commit}.js`);
  return existsSync(own) ? own : join(workers, `${name}.js`);
}

/** The version of this build, such as `1.0.0`. */
export function release(): string {
  return build().version;
}

/** Such as `1.0.0 (b1fad92c2f04)`. */
export function buildName({ version, commit }: Build): string {
  return `${version} (${commit})`;
}

function readBuild(): Build {
  const root = nearestAbove(import.meta.dirname, (directory) => existsSync(join(directory, 'package.json')));
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Build & { name: string };
  const { name, version, commit = 'unknown' } = manifest;
  return name === 'weir' ? { version, commit } : { version: 'unknown', commit: 'unknown' };
}

function nearestAbove(directory: string, fits: (directory: string) => boolean): string {
  if (fits(directory)) return directory;
  const parent = dirname(directory);
  if (parent === directory) throw new Error('this build of Weir is incomplete; run: npm run build');
  return nearestAbove(parent, fits);
}
