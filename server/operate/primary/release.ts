/**
 * The release that the serving processes run. Started by root, they serve as another user, which may not be able to read the installation,
 * such as a clone below /root (mode 0700). Then they run a copy in DATA_DIR/releases, which root owns and the user can only read.
 *
 * The copy has no hard links: a build writes its files in place, and a link shares the owner and the mode of its file.
 */
import { createHash } from 'node:crypto';
import { constants, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, rm, statfs } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { OperatorError } from '../../model/fault.ts';
import { type Account, checkWalkable, SYSTEM_USER } from '../../store/embedded/account.ts';
import { isLoaded, pathsOf, runtimePackages } from '../setup/runtime-packages.mjs';

/** Bytes that a copy leaves free. */
const ROOM_BYTES = 64 * 2 ** 20;
const LOCK_FILE = 'node_modules/.package-lock.json';

/** The release that later forks run: the installation itself or, for a user that cannot read it, a copy. */
export class Release {
  /** The compiled main.js of the installation. */
  readonly source: string;
  readonly #dataDir: string;
  readonly #user: Account;
  /** The compiled main.js that forks run. */
  entryFile: string;

  /**
   * @param source compiled main.js of the installation; links in its path may change to another release.
   * @param user null: the user of the primary, which can read what it runs.
   */
  constructor(source: string, dataDir: string, user: { uid: number; gid: number } | null) {
    this.source = source;
    this.#dataDir = dataDir;
    this.#user = user === null ? null : { ...user, name: SYSTEM_USER };
    this.entryFile = source;
  }

  /** Copies the installation as it is now, if the user needs a copy and has not one yet. Rejects with OperatorError. */
  async renew(): Promise<void> {
    if (this.#user === null) return;
    const root = join(dirname(this.source), '../..');
    const files = filesOf(root);
    const main = join('dist/server', basename(this.source));
    this.entryFile = join(isOpen(root, files) ? root : await this.#copy(root, files), main);
  }

  /** Removes the copies that later forks do not run. Call it when no process runs one of them. */
  async removeOthers(): Promise<void> {
    if (this.#user === null) return;
    const copies = this.#copies();
    for (const name of await readdir(copies).catch(() => []))
      if (!this.entryFile.startsWith(`${join(copies, name)}/`))
        // What cannot be removed now is tried again.
        await rm(join(copies, name), { recursive: true }).catch(() => {});
  }

  #copies(): string {
    return join(this.#dataDir, 'releases');
  }

  /** Resolves with the folder of the copy, which is named by a hash of its content. */
  async #copy(root: string, files: string[]): Promise<string> {
    await checkWalkable(this.#dataDir, this.#user, 'Weir serves');
    const hash = hashOf(root, files);
    const copy = join(this.#copies(), hash);
    if (isCopy(copy, files, hash)) return copy;
    await this.#checkRoom(root, files);
    await rm(copy, { recursive: true, force: true });
    for (const folder of foldersOf(files)) {
      await mkdir(join(copy, folder), { recursive: true });
      // mkdir is subject to the umask.
      await chmod(join(copy, folder), 0o755);
    }
    await chmod(this.#copies(), 0o755);
    for (const file of files) {
      await copyFile(join(root, file), join(copy, file), constants.COPYFILE_FICLONE);
      await chmod(join(copy, file), 0o644);
    }
    if (!isCopy(copy, files, hash))
      throw new OperatorError(`${root} has changed while Weir copied it`, 'try again when its build has ended');
    return copy;
  }

  async #checkRoom(root: string, files: string[]): Promise<void> {
    const bytes = files.reduce((sum, file) => sum + statSync(join(root, file)).size, 0);
    const { bavail, bsize } = await statfs(this.#dataDir);
    if (bavail * bsize < bytes + ROOM_BYTES)
      throw new OperatorError(
        `the user ${SYSTEM_USER} cannot read ${root}, and DATA_DIR has no room for a copy (${Math.ceil((bytes + ROOM_BYTES) / 2 ** 20)} MiB)`,
        `free some space, or move ${root} to a directory that every user can read, such as /srv/weir`,
      );
  }
}

/** The directories above `path`, and above its target if it is a link, that not every user can enter. */
export function closedAbove(path: string): string[] {
  const closed = new Set<string>();
  for (const start of [path, realpathSync(path)])
    for (let step = dirname(start); ; step = dirname(step)) {
      if ((statSync(step).mode & 0o001) === 0) closed.add(step);
      if (step === '/') break;
    }
  return [...closed];
}

/** Whether the mode bits let every user read these files. Access control lists do not count: the trial finds what they refuse. */
function isOpen(root: string, files: string[]): boolean {
  const allows = (path: string, bits: number) => (statSync(join(root, path)).mode & bits) === bits;
  const folders = foldersOf(files);
  return (
    files.every((file) => allows(file, 0o004)) &&
    folders.every((folder) => allows(folder, 0o005)) &&
    folders.every((folder) => closedAbove(join(root, folder)).length === 0)
  );
}

/** The folders of these files, each before those in it. */
function foldersOf(files: string[]): string[] {
  const folders = new Set<string>();
  const add = (folder: string) => {
    if (folders.has(folder)) return;
    if (folder !== '.') add(dirname(folder));
    folders.add(folder);
  };
  for (const file of files) add(dirname(file));
  return [...folders];
}

/** Files that a serving process may load, relative to the root of the installation: the build, the manifest, and packages not bundled. */
function filesOf(root: string): string[] {
  let packages: Iterable<string>;
  try {
    packages = pathsOf(runtimePackages, JSON.parse(readFileSync(join(root, LOCK_FILE), 'utf8')).packages);
  } catch {
    throw new OperatorError(
      `${join(root, LOCK_FILE)}, which npm writes, does not list the packages of Weir`,
      `in ${root}, run: npm run setup`,
    );
  }
  const folders = ['dist', ...packages];
  const found = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(join(root, '/').length)),
  );
  const isServed = (path: string) => !/^dist\/(bench\/|\.)/.test(path) && isLoaded(path);
  return ['package.json', ...new Set(found)].filter(isServed).sort();
}

/** False: it is missing, or a power cut has left it incomplete. */
function isCopy(folder: string, files: string[], hash: string): boolean {
  try {
    return hashOf(folder, files) === hash;
  } catch {
    return false;
  }
}

/** A hash over the paths and the content of these files. Throws when one is missing. */
function hashOf(root: string, files: string[]): string {
  const hash = createHash('sha256');
  for (const file of files) {
    const bytes = readFileSync(join(root, file));
    hash.update(`${file}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex').slice(0, 32);
}
