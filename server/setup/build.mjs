/** Compiles the sources to dist/ and copies their assets beside them: `node server/setup/build.mjs`. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withLock } from './lock.mjs';
import { leaveCleanly, Refusal, run } from './run.mjs';
import { fingerprintSources, listAssets, stampDist } from './sources.mjs';

const CLIENT_CONFIG = 'server/client/tsconfig.json';

/**
 * Builds the project in `root`. Type errors stop the build and leave the last good build in dist/. Old files are removed only after
 * all new files are written, so a server that runs from dist/ during a build finds every file.
 */
export async function build(root) {
  console.log('Building dist/ ...');
  // Computed first: a file that is edited while the compiler runs is built next time.
  const fingerprint = fingerprintSources(root);
  const compiled = await compile(root, 'tsconfig.json');
  const client = await buildClient(root);
  const assets = listAssets(root).map((path) => copyAsset(root, path));
  const command = join(root, 'dist/server/cli/weir.js');
  if (existsSync(command)) chmodSync(command, 0o755);
  removeAllBut(join(root, 'dist'), new Set([...compiled, ...client, ...assets]));
  stampDist(root, fingerprint);
}

/** Returns the paths of the files that the compiler wrote. */
async function compile(root, config) {
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  if (!existsSync(compiler)) throw new Refusal('The TypeScript compiler is not installed; run: npm run setup');
  const args = [compiler, '-p', config, '--noEmitOnError', '--listEmittedFiles', '--pretty', 'false'];
  const { code, output } = await run(process.execPath, args, { cwd: root, quiet: true });
  const lines = output.trimEnd().split('\n');
  const written = lines.filter((line) => line.startsWith('TSFILE: '));
  if (code !== 0) {
    console.error(lines.filter((line) => !written.includes(line)).join('\n'));
    throw new Refusal('The build failed: fix the errors above, then run: npm run build');
  }
  return written.map((line) => line.slice('TSFILE: '.length));
}

/**
 * Builds dist/client, the package of agents that an agent's project installs: the client library with its types, and without the
 * dependencies of the server. Returns the paths of its files.
 */
async function buildClient(root) {
  if (!existsSync(join(root, CLIENT_CONFIG))) return [];
  const compiled = await compile(root, CLIENT_CONFIG);
  const { name, version, description, license, engines, exports } = JSON.parse(
    readFileSync(join(root, 'package.json')),
  );
  const entry = exports['./client'];
  const own = Object.fromEntries(
    Object.entries(entry).map(([key, path]) => [key, path.replace('./dist/client/', './')]),
  );
  const about = { name, version, description: `Agents of Weir. ${description}`, license, type: 'module', engines };
  const file = join(root, 'dist/client/package.json');
  writeFileSync(file, `${JSON.stringify({ ...about, exports: { './client': own } }, null, 2)}\n`);
  const licenseFile = join(root, 'dist/client/LICENSE');
  copyFileSync(join(root, 'LICENSE'), licenseFile);
  return [...compiled, file, licenseFile];
}

function copyAsset(root, path) {
  const copy = join(root, 'dist', path);
  mkdirSync(dirname(copy), { recursive: true });
  copyFileSync(join(root, path), copy);
  return copy;
}

/** Removes files of earlier builds, then empty folders. Files whose name starts with a dot belong to the setup and are kept. */
function removeAllBut(dist, kept) {
  const paths = readdirSync(dist, { recursive: true }).map((path) => join(dist, path));
  const isOwn = (path) => relative(dist, path).startsWith('.');
  // Longest paths first, so that a folder comes after its contents.
  for (const path of paths.filter((item) => !kept.has(item) && !isOwn(item)).sort((a, b) => b.length - a.length)) {
    if (!statSync(path).isDirectory()) rmSync(path);
    else if (readdirSync(path).length === 0) rmdirSync(path);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  await leaveCleanly(() => withLock(root, () => build(root)));
}
