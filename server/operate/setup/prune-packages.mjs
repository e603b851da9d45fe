/**
 * Removes the packages that the built code does not load, for an image: `node server/operate/setup/prune-packages.mjs`. It needs no source
 * but runtime-packages.mjs and package-lock.json, so that an image repeats it only when those change.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isLoaded, pathsOf, runtimePackages } from './runtime-packages.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const kept = pathsOf(runtimePackages, packages);
const removed = Object.keys(packages).filter((path) => path !== '' && !kept.has(path));
for (const path of [...removed, 'node_modules/.bin']) rmSync(join(root, path), { recursive: true, force: true });
const folder = join(root, 'node_modules/uWebSockets.js');
for (const file of readdirSync(folder).map((name) => join(folder, name))) if (!isLoaded(file)) rmSync(file);
