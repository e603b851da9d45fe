/** Collects facts about this machine and this folder. Changes nothing; starts a program only when files do not contain the fact. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { hasEtcdClient, postgresServerFolder } from './debian.mjs';
import { serverBinaryProblem } from './server-binary.mjs';
import { stateOfDist } from './sources.mjs';

const testCommands = [
  'pg_dump',
  'redis-server',
  'prometheus',
  'promtool',
  'faketime',
  'chromium-headless-shell',
  'patroni',
  'etcd',
];
/** The PATH of ordinary users may not name their folder. */
const systemCommands = ['haproxy', 'ip', 'nft', 'nginx', 'pgbouncer'];
const installStamp = join('node_modules', '.weir-setup.json');

/** Returns the facts for planSetup. `tests`: whether the tests will run as well. */
export function readFacts(root, tests) {
  return {
    tests,
    platform: process.platform,
    arch: process.arch,
    nodeVersion: process.versions.node,
    glibc: glibcVersion(),
    uid: process.getuid?.(),
    canSudo: () => spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0,
    found: [
      ...['apt-get', 'pg_config', 'make', 'python3', ...testCommands].filter((command) => isOnPath(command)),
      ...systemCommands.filter((command) => isOnPath(command) || isExecutable(join('/usr/sbin', command))),
      ...(postgresServerFolder() !== undefined ? ['postgres'] : []),
      ...(process.env.CXX || isOnPath('g++') ? ['g++'] : []),
      ...(hasLibpqHeader() ? ['libpq-fe.h'] : []),
      ...(hasEtcdClient() ? ['python3-etcd'] : []),
    ],
    wanted: wantedInstall(root),
    installed: readOrEmpty(join(root, installStamp)),
    binaryProblem: serverBinaryProblem(root),
    dist: stateOfDist(root, { named: true }),
    weirUser: /^weir:/m.test(readOrEmpty('/etc/passwd')),
  };
}

/** Path of the stamp of the last `npm ci`. */
export function installStampPath(root) {
  return join(root, installStamp);
}

/**
 * The folder whose include/node contains the headers of the running Node, or null. With it node-gyp compiles without downloading
 * headers. Headers of another version are ignored: an addon compiled with them would not load.
 */
export function nodeHeadersFolder() {
  const folders = [dirname(dirname(process.execPath)), '/usr', '/usr/local'];
  const isOurs = (folder) => {
    const text = readOrEmpty(join(folder, 'include', 'node', 'node_version.h'));
    const numbers = ['MAJOR', 'MINOR', 'PATCH'].map((part) => text.match(`#define NODE_${part}_VERSION (\\d+)`)?.[1]);
    return numbers.join('.') === process.versions.node;
  };
  return folders.find(isOurs) ?? null;
}

/** Returns the wanted state as text. When the stamp in node_modules equals it, `npm ci` is not needed. Addons depend on the Node ABI. */
function wantedInstall(root) {
  const lock = createHash('sha256')
    .update(readOrEmpty(join(root, 'package-lock.json')))
    .digest('hex');
  return JSON.stringify({ lock, abi: process.versions.modules, arch: process.arch });
}

function glibcVersion() {
  return process.report?.getReport().header.glibcVersionRuntime ?? null;
}

function hasLibpqHeader() {
  if (existsSync('/usr/include/postgresql/libpq-fe.h')) return true;
  const { stdout } = spawnSync('pg_config', ['--includedir'], { encoding: 'utf8' });
  return Boolean(stdout) && existsSync(join(stdout.trim(), 'libpq-fe.h'));
}

function isOnPath(command) {
  return (process.env.PATH ?? '').split(':').some((folder) => isExecutable(join(folder, command)));
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function readOrEmpty(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
