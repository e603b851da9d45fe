/** Where the files of this build are. The code runs as bundles below dist/ and, in tests, from its sources. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

let folder: string | undefined;
let version: string | undefined;

/** The folder that contains `server/`, `workers/` and `views/` of this build: dist/, or the project when its sources run. */
export function buildFolder(): string {
  folder ??= nearestAbove(import.meta.dirname, (directory) => existsSync(join(directory, 'views')));
  return folder;
}

/** Path of a file of this build, such as `server/main.js` or `views/assets/icon.svg`. */
export function builtFile(path: string): string {
  return join(buildFolder(), path);
}

/** The release in Weir's package.json, such as `0.1.0`; `unknown` when another project has bundled this code. */
export function release(): string {
  version ??= readRelease();
  return version;
}

function readRelease(): string {
  const root = nearestAbove(import.meta.dirname, (directory) => existsSync(join(directory, 'package.json')));
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { name: string; version: string };
  return manifest.name === 'weir' ? manifest.version : 'unknown';
}

function nearestAbove(directory: string, fits: (directory: string) => boolean): string {
  if (fits(directory)) return directory;
  const parent = dirname(directory);
  if (parent === directory) throw new Error('this build of Weir is incomplete; run: npm run build');
  return nearestAbove(parent, fits);
}
