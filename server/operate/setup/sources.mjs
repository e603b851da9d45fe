/**
 * Lists the sources of dist/ and checks whether dist/ is up to date.
 *
 * Compares content, not time: switching branches back and forth, a copied folder or a touched file needs no build (300 files: about 10 ms).
 */
import { spawnSync } from 'node:child_process';
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

/**
 * The build inputs: their commit and, as `fingerprint`, one hash over their names and contents. Without git, or when an input differs from
 * the commit, the name of the commit is that of the hash, such as `sources-5f1c0e9a7b3d`.
 */
export function identifySources(root) {
  const hash = createHash('sha256');
  for (const path of [...recipe, ...listGuides(root), ...listFiles(root, ['.ts', ...assetExtensions])]) {
    const bytes = readIfThere(join(root, path));
    hash.update(`${path}\0${bytes.length}\0`).update(bytes);
  }
  const digest = hash.digest('hex');
  const commit = commitOf(root) ?? `sources-${digest.slice(0, 12)}`;
  return { commit, fingerprint: `${commit} ${digest}` };
}

/** The first 12 digits of the commit; undefined outside of a repository, or when an input has changed since. */
function commitOf(root) {
  const git = (...args) => spawnSync('git', ['-c', 'safe.directory=*', ...args], { cwd: root, encoding: 'utf8' });
  const head = git('rev-parse', '--show-prefix', 'HEAD').stdout?.match(/^\n([0-9a-f]{12})/)?.[1];
  if (head === undefined) return undefined;
  const { status, stdout } = git('status', '--porcelain', '--', ...folders, ...recipe, ':!bench/results');
  return status === 0 && stdout === '' ? head : undefined;
}

/** `missing`, `outdated` (a source differs from what was built) or `fresh`. @param named another commit of the same sources is outdated too */
export function stateOfDist(root, { named = false } = {}) {
  const { fingerprint } = readStamp(root);
  if (fingerprint === '') return 'missing';
  const compared = named ? fingerprint : fingerprint.split(' ').at(-1);
  return identifySources(root).fingerprint.endsWith(compared) ? 'fresh' : 'outdated';
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
