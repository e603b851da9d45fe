/**
 * Lists the sources of dist/ and checks whether dist/ is up to date.
 *
 * Compares content, not time: switching branches back and forth, a copied folder or a touched file needs no build (300 files: about 10 ms).
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { listGuides } from './guides.mjs';

const folders = ['server', 'workers', 'bench', 'views'];
/** Files that the compiled code reads at run time; copied unchanged. */
const assetExtensions = ['.sql', '.lua', '.eta', '.css', '.js', '.svg', '.woff2', '.txt', '.py'];
/** Other inputs of the build. */
export const recipe = [
  'LICENSE',
  'tsconfig.json',
  'server/deliver/client/tsconfig.json',
  'package.json',
  'package-lock.json',
  'server/model/signatures/presets.json',
  'server/operate/setup/build.mjs',
  'server/operate/setup/client-package.mjs',
  'server/operate/setup/guides.mjs',
  'server/operate/setup/runtime-packages.mjs',
];
const stamp = join('dist', '.weir-build.json');

/** Paths of all assets under `root`, relative to `root`. */
export function listAssets(root) {
  return listFiles(root, assetExtensions);
}

/** One hash over the names and contents of all build inputs. */
export function fingerprintSources(root) {
  const hash = createHash('sha256');
  for (const path of [...recipe, ...listGuides(root), ...listFiles(root, ['.ts', ...assetExtensions])]) {
    const bytes = readIfThere(join(root, path));
    hash.update(`${path}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}

/** `missing`, `outdated` (a source differs from what was built) or `fresh`. */
export function stateOfDist(root) {
  const { fingerprint } = readStamp(root);
  if (fingerprint === '') return 'missing';
  return fingerprint === fingerprintSources(root) ? 'fresh' : 'outdated';
}

/** Records that dist/ is built from the sources with this fingerprint, and the files of the build, relative to dist/. */
export function stampDist(root, fingerprint, files) {
  writeFileSync(join(root, stamp), JSON.stringify({ fingerprint, files }));
}

/** The record of `stampDist`; empty before the first build. */
export function readStamp(root) {
  const text = readIfThere(join(root, stamp)).toString();
  // Releases before bundles wrote the fingerprint alone.
  return text.startsWith('{') ? JSON.parse(text) : { fingerprint: text, files: [] };
}

function listFiles(root, extensions) {
  return folders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((path) => join(folder, path)))
    .filter((path) => extensions.includes(extname(path)))
    .sort();
}

function readIfThere(path) {
  try {
    return readFileSync(path);
  } catch (error) {
    if (error.code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}
