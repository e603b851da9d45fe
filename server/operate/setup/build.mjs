/** Bundles the sources to dist/ and copies their assets there: `node server/operate/setup/build.mjs`. `npm run check` checks the types. */
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
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describePackage, pack } from './client-package.mjs';
import { renderGuides } from './guides.mjs';
import { withLock } from './lock.mjs';
import { leaveCleanly, Refusal, run } from './run.mjs';
import { runtimePackages } from './runtime-packages.mjs';
import { identifySources, listAssets, readStamp, stampDist } from './sources.mjs';

const COMMANDS = 'server/cli/weir.ts';
const CLIENT_CONFIG = 'server/deliver/client/tsconfig.json';
/** Migrations of the last build are not kept: the folder is the list of what a database needs, and a server reads it once, at its start. */
const MIGRATIONS = 'server/store/migrations/';

/** Installed by `npm run bench -- peers`. */
const PEER_PACKAGES = 'bench/node_modules';

/**
 * The programs, in groups that share chunks. A file in dist/ has the name of its source.
 *
 * One file with its imports, instead of a file for each module: `weir --help` resolved and read 850 files for 1.4 s of CPU time.
 */
const programs = [
  [COMMANDS],
  ['server/main.ts', 'server/operate/process/trial.ts'],
  ['workers/diagnose.ts', 'workers/filter.ts', 'workers/hmac.ts', 'workers/sender.ts'],
  ['bench/run.ts', ...['bare', 'least', 'receive', 'consume'].map((peer) => `bench/peers/${peer}.ts`)],
];

/**
 * For the commands: modules that almost the same commands use go into one file. Otherwise each set of commands that uses a module has a file
 * of its own, and `weir webhook list` reads 78 files. Files merged in this way may import each other, so each module runs in a function
 * (`strictExecutionOrder`): without it a schema is used before it is made. Serving processes have neither: V8 does not treat the constants of
 * a module in a function as constants.
 */
const merged = {
  codeSplitting: {
    groups: [
      {
        name: 'shared',
        test: /\/server\/(store\/queries|manage\/api\/(agents|alerts|audit|deliveries|history|jobs|tokens|webhooks))\//,
        entriesAware: true,
        entriesAwareMergeThreshold: 40_000,
      },
    ],
  },
  strictExecutionOrder: true,
};

/** Packages that stay in node_modules. */
const external = [/^node:/, ...runtimePackages, 'bullmq', 'fastify', 'graphile-worker', 'pg-boss'];

/**
 * Builds the project in `root`. An error stops the build and leaves the last good build in dist/. The files of that build are removed
 * by the next one, so a server that runs from dist/ finds every file until its restart.
 */
export async function build(root) {
  console.log('Building dist/ ...');
  // Computed first: a file that is edited while the bundler runs is built next time.
  const { commit, fingerprint } = identifySources(root);
  const bundles = [];
  for (const entries of programs) {
    const found = entries.filter((entry) => existsSync(join(root, entry)));
    if (found.length > 0) bundles.push(await bundle(root, found));
  }
  const facts = { ...JSON.parse(readFileSync(join(root, 'package.json'))), commit };
  const client = await buildClient(root, facts);
  const { name, version, type } = facts;
  const written = bundles.flat().flatMap((file) => withOwnName(file, commit).map((each) => writeBuilt(root, each)));
  // Programs read the nearest package.json: this one, or that of the client package. Written right after the code, so that a process that
  // starts now finds the threads of its build.
  written.push(writeBuilt(root, { path: 'package.json', content: JSON.stringify({ name, version, type, commit }) }));
  const assets = listAssets(root).map((path) => copyAsset(root, path));
  const guides = await buildGuides(root);
  const command = join(root, 'dist/server/cli/weir.js');
  if (existsSync(command)) chmodSync(command, 0o755);
  const dist = join(root, 'dist');
  const files = [...written, ...client, ...assets, ...guides].map((path) => relative(dist, path));
  const last = readStamp(root).files.filter((path) => !path.startsWith(MIGRATIONS));
  removeAllBut(dist, new Set([...files, ...last]));
  stampDist(root, fingerprint, files);
}

/**
 * Bundles programs of the project in `root`, given by their sources, and returns the files: path below dist/, and content.
 * @param chunks folder of the code that the programs share, or load on demand
 * @param standalone one program as one small file that contains all packages
 */
export async function bundle(root, entries, { chunks = entries[0].split('/')[0], standalone = false } = {}) {
  const { rolldown } = await load(root, 'rolldown');
  try {
    const built = await rolldown({
      cwd: root,
      input: Object.fromEntries(entries.map((entry) => [entry.replace(/\.ts$/, ''), entry])),
      platform: 'node',
      external: standalone ? [/^node:/] : external,
      onLog: (_level, log) => {
        throw new Error(log.message);
      },
    });
    const { output } = await built.generate({
      format: 'esm',
      entryFileNames: '[name].js',
      chunkFileNames: `${chunks}/chunks/[name]-[hash].js`,
      // A map without the sources is a third of the size, and a stack trace needs no more.
      ...(standalone
        ? { codeSplitting: false, minify: true }
        : { ...(entries.includes(COMMANDS) && merged), sourcemap: true, sourcemapExcludeSources: true }),
    });
    await built.close();
    return output.map((file) => ({ path: file.fileName, content: file.type === 'chunk' ? file.code : file.source }));
  } catch (error) {
    console.error(error.message);
    throw new Refusal('The build failed: fix the errors above, then run: npm run build');
  }
}

/** A package of this project. It is installed by the set-up, so it is not imported at the top. */
async function load(root, name) {
  const require = createRequire(resolve(root, 'package.json'));
  try {
    return await import(pathToFileURL(require.resolve(name)).href);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Refusal(`The package ${name} is not installed; run: npm run setup`);
  }
}

/** The program of a thread, also with the commit in its name: see threadFile in server/base/files/build.ts. */
function withOwnName(file, commit) {
  const [, name] = /^(workers\/[^/]+)\.js$/.exec(file.path) ?? [];
  return name === undefined ? [file] : [file, { ...file, path: `${name}-${commit}.js` }];
}

function writeBuilt(root, { path, content }) {
  const file = join(root, 'dist', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  return file;
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
 * Builds dist/client, the package that an agent's project installs, and dist/client.tgz, which the server hands out: the client library
 * with its types, and its command line in one file, without dependencies. Returns the paths of the files. @param facts package.json of the
 * project, with the commit
 */
async function buildClient(root, facts) {
  if (!existsSync(join(root, CLIENT_CONFIG))) return [];
  const folder = join(root, 'dist/client');
  const compiled = await compile(root, CLIENT_CONFIG);
  const [command] = await bundle(root, ['server/cli/client.ts'], { standalone: true });
  const files = [
    ...compiled.map((path) => ({ path: relative(folder, path), bytes: publishedBytes(path) })),
    { path: 'weir.js', bytes: Buffer.from(command.content), executable: true },
    ...describePackage(facts, root).map(({ path, content }) => ({
      path,
      bytes: Buffer.from(content),
    })),
  ];
  for (const { path, bytes, executable } of files)
    writeFileSync(join(folder, path), bytes, executable ? { mode: 0o755 } : {});
  const { gzipSync } = await load(root, 'fflate');
  const archive = join(root, 'dist/client.tgz');
  writeFileSync(archive, pack(files, gzipSync));
  return [...files.map(({ path }) => join(folder, path)), archive];
}

/** The bytes to publish. The compiler leaves the paths of sources (.ts) in declarations; TypeScript before 5 needs those of programs (.js). */
function publishedBytes(path) {
  if (!path.endsWith('.d.ts')) return readFileSync(path);
  return Buffer.from(readFileSync(path, 'utf8').replace(/(from '\.[^']*)\.ts';/g, "$1.js';"));
}

/** Writes the guides as one file, which a serving process reads when the first guide is asked for. Returns its path. */
async function buildGuides(root) {
  if (!existsSync(join(root, 'views/docs'))) return [];
  const content = JSON.stringify(renderGuides(root, await load(root, 'marked')));
  return [writeBuilt(root, { path: 'views/docs/guides.json', content })];
}

function copyAsset(root, path) {
  const copy = join(root, 'dist', path);
  mkdirSync(dirname(copy), { recursive: true });
  copyFileSync(join(root, path), copy);
  return copy;
}

/**
 * Removes files of earlier builds, then empty folders. Files whose name starts with a dot belong to the setup and are kept, and so are the
 * packages of bench/peers.
 */
function removeAllBut(dist, kept) {
  const isKept = (path) => kept.has(path) || path.startsWith('.') || path.startsWith(PEER_PACKAGES);
  const paths = readdirSync(dist, { recursive: true }).filter((path) => !isKept(path));
  // Longest paths first, so that a folder comes after its contents.
  for (const path of paths.sort((a, b) => b.length - a.length)) {
    const file = join(dist, path);
    if (!statSync(file).isDirectory()) rmSync(file);
    else if (readdirSync(file).length === 0) rmdirSync(file);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  await leaveCleanly(() => withLock(root, () => build(root)));
}
