/** The copy of a release that the user weir cannot read. Root alone serves as another user. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Release } from '../../../server/operate/primary/release.ts';
import { runtimePackages } from '../../../server/operate/setup/runtime-packages.mjs';
import { lookUpUser, SYSTEM_USER } from '../../../server/store/embedded/account.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { canMount, mountSmallDisk, skippedNote } from '../../helpers/small-disk.ts';

const BINARY = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;

describe.runIf(process.getuid!() === 0)('for a user other than root', () => {
  let user: { uid: number; gid: number; env: NodeJS.ProcessEnv };
  let root: string;
  let dataDir: string;
  let source: string;

  const write = (path: string, text: string, mode = 0o644) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
    chmodSync(join(root, path), mode);
  };
  const reads = (path: string) => spawnSync('cat', [path], { ...user, encoding: 'utf8' }).stdout;
  const release = async () => {
    const made = new Release(source, dataDir, user);
    await made.renew();
    return made;
  };
  const copies = () => readdirSync(join(dataDir, 'releases'));

  beforeEach(async () => {
    const { uid, gid } = (await lookUpUser(SYSTEM_USER))!;
    user = { uid, gid, env: {} };
    dataDir = temporaryDirectory();
    chmodSync(dataDir, 0o711);
    root = temporaryDirectory();
    source = join(root, 'dist/server/main.js');
    write('package.json', '{}');
    write('dist/server/main.js', 'first');
    write('dist/bench/run.js', 'for developers');
    write('dist/.weir-build.json', '{}');
    for (const name of runtimePackages) write(`node_modules/${name}/index.js`, name);
    write(`node_modules/uWebSockets.js/${BINARY}`, 'binary');
    write('node_modules/uWebSockets.js/uws_win32_x64_1.node', 'binary of others');
    const packages = Object.fromEntries(runtimePackages.map((name) => [`node_modules/${name}`, {}]));
    write('node_modules/.package-lock.json', JSON.stringify({ packages }));
    chmodSync(root, 0o700);
  });

  test('has what processes load; the user reads it and cannot change it', async () => {
    const { entryFile } = await release();
    expect(reads(entryFile)).toBe('first');
    const copy = join(dirname(entryFile), '../..');
    const files = readdirSync(copy, { recursive: true, withFileTypes: true });
    const paths = files.map(({ parentPath, name }) => join(parentPath, name));
    expect(
      paths
        .filter((path) => statSync(path).isFile())
        .map((path) => path.slice(copy.length + 1))
        .sort(),
    ).toEqual(
      [
        'dist/server/main.js',
        ...runtimePackages.map((name) => `node_modules/${name}/index.js`),
        `node_modules/uWebSockets.js/${BINARY}`,
        'package.json',
      ].sort(),
    );
    for (const path of [dirname(copy), copy, ...paths]) {
      expect(statSync(path)).toMatchObject({ uid: 0, gid: 0 });
      expect(statSync(path).mode & 0o7777).toBe(statSync(path).isFile() ? 0o644 : 0o755);
    }
  });

  test.each([
    ['a closed directory above it', () => {}],
    [
      'a file of a user with the umask 077',
      () => {
        chmodSync(root, 0o755);
        chmodSync(join(root, 'node_modules/libpq/index.js'), 0o600);
      },
    ],
    [
      'a link to it in a closed directory',
      () => {
        const closed = temporaryDirectory();
        symlinkSync(root, join(closed, 'current'));
        chmodSync(root, 0o755);
        source = join(closed, 'current/dist/server/main.js');
      },
    ],
    [
      'packages behind a link to a closed directory',
      () => {
        const closed = temporaryDirectory();
        spawnSync('mv', [join(root, 'node_modules'), closed]);
        symlinkSync(join(closed, 'node_modules'), join(root, 'node_modules'));
        chmodSync(root, 0o755);
      },
    ],
  ])('is made for %s, whatever the umask', async (_, close) => {
    close();
    const umask = process.umask(0o077);
    const { entryFile } = await release().finally(() => process.umask(umask));
    expect(entryFile).toMatch(`${dataDir}/releases/`);
    expect(reads(join(dirname(entryFile), '../../node_modules/libpq/index.js'))).toBe('libpq');
  });

  test('is not made when every user can read the installation', async () => {
    chmodSync(root, 0o755);
    expect((await release()).entryFile).toBe(source);
    expect(readdirSync(dataDir)).toEqual([]);
  });

  test('is made once for a content, and again for another; the first one stays until it is removed', async () => {
    const served = await release();
    const first = served.entryFile;
    await served.renew();
    expect(served.entryFile).toBe(first);
    // A build writes files in place: the copy shares none with it.
    write('dist/server/main.js', 'second');
    await served.renew();
    expect([reads(first), reads(served.entryFile)]).toEqual(['first', 'second']);
    expect(copies()).toHaveLength(2);
    await served.removeOthers();
    expect(copies().map((name) => join(dataDir, 'releases', name, 'dist/server/main.js'))).toEqual([served.entryFile]);
  });

  test('is made again when a power cut has left it incomplete', async () => {
    const { entryFile } = await release();
    writeFileSync(entryFile, '');
    const again = await release();
    expect([again.entryFile, reads(entryFile)]).toEqual([entryFile, 'first']);
  });

  test('below a DATA_DIR that the user cannot enter is refused, with the command that fixes it', async () => {
    chmodSync(dataDir, 0o700);
    await expect(release()).rejects.toThrow(
      `Weir serves as user weir, which cannot access ${dataDir}; run: chmod o+x ${dataDir}`,
    );
  });

  test('of packages that npm has not installed is refused', async () => {
    write('node_modules/.package-lock.json', '{"packages":{}}');
    await expect(release()).rejects.toThrow(`in ${root}, run: npm run setup`);
  });

  test.runIf(canMount)(`without room for it is refused, and leaves nothing${skippedNote}`, async () => {
    onTestFinished(mountSmallDisk(dataDir, '60m', 0o711));
    await expect(release()).rejects.toThrow(/DATA_DIR has no room for a copy \(65 MiB\); free some space, or move/);
    expect(readdirSync(dataDir)).toEqual([]);
  });
});
