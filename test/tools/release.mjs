/**
 * Makes the files of a release in release/, which git ignores:
 *
 *     npm run release -- 1.0.0 [--digests FILE]   tests everything, writes version and date, commits, and makes the files
 *     npm run release [-- --digests FILE]         makes the files of the current commit again: the same bytes
 *
 * FILE pins the base images of the Dockerfile: a line `IMAGE:TAG sha256:…` for each. A dirty tree and a failed test are refused.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'fflate';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, 'release');
const git = (...args) => execFileSync('git', args, { cwd: root, maxBuffer: 2 ** 30 });
const textOf = (path) => readFileSync(join(root, path), 'utf8');
const manifest = () => JSON.parse(textOf('package.json'));

class Refusal extends Error {}

/** Inherits the output. Throws Refusal when it fails. */
function run(program, ...args) {
  if (spawnSync(program, args, { cwd: root, stdio: 'inherit' }).status !== 0)
    throw new Refusal(`${program} ${args.join(' ')} failed`);
}

function refuseDirtyTree() {
  const changes = git('status', '--porcelain').toString().trim();
  if (changes !== '') throw new Refusal(`Commit or remove these first:\n${changes}`);
}

/** Tests, then writes the version into package.json and the lock file, and both into the changelog, and commits. */
function announce(version) {
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Refusal(`${version} is not a version such as 1.0.0`);
  const changelog = textOf('CHANGELOG.md');
  const heading = new RegExp(`^## \\[(?:Unreleased|${version})\\].*$`, 'm');
  if (!heading.test(changelog)) throw new Refusal(`CHANGELOG.md has no section [Unreleased], and none of ${version}`);
  run('npm', 'run', 'test:all');
  run('npm', 'version', '--no-git-tag-version', '--allow-same-version', version);
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(join(root, 'CHANGELOG.md'), changelog.replace(heading, `## [${version}] - ${date}`));
  if (git('status', '--porcelain').length > 0) git('commit', '--all', '--message', `release: ${version}`);
}

/** The Dockerfile with each base image pinned. @param file lines of image and digest */
function pinned(file) {
  const digests = new Map(
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => line.trim().split(/\s+/)),
  );
  return textOf('Dockerfile').replace(/^FROM (\S+:\S+)/gm, (_line, image) => {
    const digest = digests.get(image);
    if (!/^sha256:[0-9a-f]{64}$/.test(digest ?? '')) throw new Refusal(`${file} has no digest of ${image}`);
    return `FROM ${image}@${digest}`;
  });
}

/** Software bill of materials of what runs, as CycloneDX by npm, without the time and the serial number of this run. */
function billOfMaterials() {
  const options = ['--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only'];
  const { serialNumber: _, ...bill } = JSON.parse(
    execFileSync('npm', ['sbom', ...options], { cwd: root, maxBuffer: 2 ** 28 }),
  );
  delete bill.metadata.timestamp;
  // npm takes the name of the folder.
  bill.metadata.component.name = manifest().name;
  return `${JSON.stringify(bill, null, 2)}\n`;
}

function makeFiles(digests) {
  const { name, version, description, license } = manifest();
  const [revision, created] = git('show', '--no-patch', '--format=%H %cI', 'HEAD').toString().trim().split(' ');
  run(process.execPath, 'server/operate/setup/build.mjs');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const write = (file, content) => writeFileSync(join(folder, file), content);
  copyFileSync(join(root, 'dist/client.tgz'), join(folder, `${name}-client-${version}.tgz`));
  const archive = git('archive', '--format=tar', `--prefix=${name}-${version}/`, 'HEAD');
  write(`${name}-${version}.tar.gz`, gzipSync(archive, { level: 9, mtime: 0 }));
  write(`${name}-${version}.cdx.json`, billOfMaterials());
  const labels = { title: name, description, version, revision, licenses: license, created };
  write(
    'image-labels',
    Object.entries(labels)
      .map(([key, value]) => `org.opencontainers.image.${key}=${value}\n`)
      .join(''),
  );
  const [major, minor] = version.split('.');
  write('image-tags', [version, `${major}.${minor}`, major].map((tag) => `${name}:${tag}\n`).join(''));
  if (digests !== undefined) write('Dockerfile', pinned(digests));
  const sums = readdirSync(folder)
    .sort()
    .map(
      (file) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, file)))
          .digest('hex')}  ${file}\n`,
    );
  write('SHA256SUMS', sums.join(''));
  console.log(sums.join(''));
}

try {
  const { values, positionals } = parseArgs({ options: { digests: { type: 'string' } }, allowPositionals: true });
  refuseDirtyTree();
  if (positionals[0] !== undefined) announce(positionals[0]);
  makeFiles(values.digests);
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
