import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { chmod, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { DataDirInUseError, lockDataDir } from '../../../server/base/files/data-dir.ts';
import { acquireLock, type Lock, LockError } from '../../../server/base/files/lock.ts';
import { builtScript } from '../../helpers/script.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

let directory: string;
let path: string;
const held: Lock[] = [];

beforeEach(async () => {
  directory = temporaryDirectory();
  path = join(directory, 'some.lock');
});

afterEach(() => Promise.all(held.splice(0).map((lock) => lock.release())));

async function take(mode: 'shared' | 'exclusive', waitSeconds = 0): Promise<Lock | null> {
  const lock = await acquireLock(path, mode, waitSeconds);
  if (lock !== null) held.push(lock);
  return lock;
}

describe('a lock', () => {
  test.each([
    { first: 'shared', second: 'shared', both: true },
    { first: 'shared', second: 'exclusive', both: false },
    { first: 'exclusive', second: 'shared', both: false },
    { first: 'exclusive', second: 'exclusive', both: false },
  ] as const)('$first, then $second without waiting: both are taken = $both', async ({ first, second, both }) => {
    expect(await take(first)).not.toBeNull();
    expect((await take(second)) !== null).toBe(both);
  });

  test('is free once release has resolved, and a second release is harmless', async () => {
    const lock = await take('exclusive');
    await lock!.release();
    await lock!.release();
    expect(await take('exclusive')).not.toBeNull();
  });

  test('that is waited for is taken when the holder releases it, not before', async () => {
    const first = await take('exclusive');
    const order: string[] = [];
    const second = take('exclusive', 60).then(() => order.push('second had it'));
    await take('shared');
    order.push('first lets go');
    await first!.release();
    await second;
    expect(order).toEqual(['first lets go', 'second had it']);
  });

  test('is of the file that is at the path, when its holder has removed the one that was waited for', async () => {
    const first = await take('exclusive');
    const second = take('exclusive', 60);
    rmSync(path);
    await first!.release();
    expect(await second).not.toBeNull();
    expect(await take('exclusive')).toBeNull();
  });

  test('of a process killed with -9 is free', async () => {
    const holder = await startHolder(path);
    expect(await take('exclusive')).toBeNull();
    holder.kill('SIGKILL');
    await once(holder, 'close');
    expect(await take('exclusive', 60)).not.toBeNull();
  });

  test('is kept when its process group is interrupted and the holder survives', async () => {
    const holder = await startHolder(path);
    process.kill(-holder.pid!, 'SIGINT');
    await once(holder.stdout!, 'data');
    expect(await take('exclusive')).toBeNull();
    holder.kill('SIGKILL');
    await once(holder, 'close');
  });

  test('does not keep its process running', async () => {
    const holder = await startHolder(path, { lingers: false });
    const [code] = await Promise.race([once(holder, 'exit'), delay(40_000, ['still running after 40 s'])]);
    expect(code).toBe(0);
    expect(await take('exclusive', 60)).not.toBeNull();
  });

  test('is waited for up to the limit, then its holder is named', async () => {
    const holder = await startHolder(path);
    const { uid } = await stat(`/proc/${holder.pid}`);
    const asked = acquireLock(path, 'shared', 0.2);
    await expect(asked).rejects.toThrow(LockError);
    await expect(asked).rejects.toThrow(
      `Cannot lock ${path}: it was held for 0.2 s, now by process ${holder.pid} (user ${uid}); end that process, or try again`,
    );
  });

  test('file can be opened only by its owner: no other user can hold it', async () => {
    await take('exclusive');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test('in a directory that does not exist is an error that names the path', async () => {
    const nowhere = join(directory, 'nowhere', 'some.lock');
    await expect(acquireLock(nowhere, 'shared', 0)).rejects.toThrow(LockError);
    await expect(acquireLock(nowhere, 'shared', 60)).rejects.toThrow(nowhere);
  });
});

test('a DATA_DIR has one Weir at a time, and the error names it', async () => {
  const lock = await lockDataDir(directory);
  await expect(lockDataDir(directory)).rejects.toThrow(DataDirInUseError);
  await expect(lockDataDir(directory)).rejects.toThrow(`${directory}: process ${process.pid} (user`);
  await lock.release();
  held.push(await lockDataDir(directory));
});

test.each([0o022, 0o077])('a missing DATA_DIR is created for its owner only under umask %o', async (mask) => {
  const missing = join(directory, 'a/b');
  const before = process.umask(mask);
  onTestFinished(() => void process.umask(before));
  held.push(await lockDataDir(missing));
  const made = await stat(missing);
  expect(made.isDirectory()).toBe(true);
  // As root, the account of Postgres needs access.
  expect(made.mode & 0o777).toBe(process.getuid!() === 0 ? 0o711 : 0o700);
});

test('an existing DATA_DIR keeps its mode, because other programs may use it', async () => {
  await chmod(directory, 0o755);
  held.push(await lockDataDir(directory));
  expect((await stat(directory)).mode & 0o777).toBe(0o755);
});

/** Another Node process, leader of its own group, that holds the lock exclusively; it prints `interrupted` on SIGINT and continues. */
async function startHolder(lockPath: string, { lingers = true } = {}): Promise<ChildProcess> {
  const script = await builtScript(
    `import { acquireLock } from '#server/base/files/lock.ts';
    ${lingers ? "process.on('SIGINT', () => console.log('interrupted')); setInterval(() => {}, 1000);" : ''}
    const lock = await acquireLock(${JSON.stringify(lockPath)}, 'exclusive', 0);
    console.log(lock === null ? 'refused' : 'held');`,
  );
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const holder = spawn(process.execPath, [script], { detached: true, stdio: [...stdio] });
  onTestFinished(() => void holder.kill('SIGKILL'));
  const [line] = await once(holder.stdout!, 'data');
  expect(String(line).trim()).toBe('held');
  return holder;
}
