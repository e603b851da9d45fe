import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryDirectory } from '../helpers/settings.ts';

const root = resolve(import.meta.dirname, '../..');

/** A clone of the last commit, with the packages of this one. */
function clone() {
  const directory = join(temporaryDirectory(), 'weir');
  execFileSync('git', ['clone', '--quiet', root, directory]);
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
  // `node_modules/` of .gitignore is not a link.
  appendFileSync(join(directory, '.git/info/exclude'), 'node_modules\n');
  const release = (...args: string[]) =>
    spawnSync(process.execPath, ['test/tools/release.mjs', ...args], { cwd: directory, encoding: 'utf8' });
  const file = (name: string) => readFileSync(join(directory, 'release', name));
  return { directory, release, file };
}

describe('a release', () => {
  test('makes the same files of one commit each time, and SHA256SUMS names them', () => {
    const { directory, release, file } = clone();
    const { version } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
    const read = () => {
      const { status, stderr } = release();
      expect([status, stderr]).toEqual([0, '']);
      return new Map(readdirSync(join(directory, 'release')).map((name) => [name, file(name)]));
    };
    const [one, two] = [read(), read()];
    expect([...one.keys()].sort()).toEqual(
      [
        'SHA256SUMS',
        'image-labels',
        'image-tags',
        `weir-${version}.cdx.json`,
        `weir-${version}.tar.gz`,
        `weir-client-${version}.tgz`,
      ].sort(),
    );
    expect(two).toEqual(one);
    for (const line of one.get('SHA256SUMS')!.toString().trim().split('\n')) {
      const [sum, name] = line.split('  ') as [string, string];
      expect(createHash('sha256').update(one.get(name)!).digest('hex')).toBe(sum);
    }
    const revision = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: directory, encoding: 'utf8' }).trim();
    expect(one.get('image-labels')!.toString()).toContain(`org.opencontainers.image.revision=${revision}\n`);
    const bill = JSON.parse(one.get(`weir-${version}.cdx.json`)!.toString());
    const names = bill.components.map(({ name }: { name: string }) => name);
    expect(names).toContain('uWebSockets.js');
    expect(names).not.toContain('vitest');
  });

  test('pins each base image by the digests of a file, and refuses one that is missing', () => {
    const { directory, release, file } = clone();
    const digests = join(directory, '.git/digests');
    const digest = `sha256:${'0'.repeat(64)}`;
    writeFileSync(digests, `node:24-trixie ${digest}\n`);
    const refused = release('--digests', digests);
    expect([refused.status, refused.stderr]).toEqual([1, `${digests} has no digest of debian:13-slim\n`]);
    appendFileSync(digests, `debian:13-slim ${digest}\n`);
    expect(release('--digests', digests).status).toBe(0);
    const images = [
      ...file('Dockerfile')
        .toString()
        .matchAll(/^FROM (\S+:\S+)/gm),
    ].map(([, image]) => image);
    expect(new Set(images)).toEqual(new Set([`node:24-trixie@${digest}`, `debian:13-slim@${digest}`]));
  });

  test('is refused for a tree with changes, and for a text that is not a version', () => {
    const { directory, release } = clone();
    const wrong = release('1.0');
    expect([wrong.status, wrong.stderr]).toEqual([1, '1.0 is not a version such as 1.0.0\n']);
    writeFileSync(join(directory, 'stray'), '');
    const dirty = release();
    expect([dirty.status, dirty.stderr]).toEqual([1, 'Commit or remove these first:\n?? stray\n']);
  });
});
