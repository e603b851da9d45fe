/** The account that runs the embedded Postgres, which refuses to run as root. */
import { execFile } from 'node:child_process';
import { realpath, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { OperatorError } from '../../model/fault.ts';

const run = promisify(execFile);

/** The account that Postgres runs as; `null`: the current user. */
export type Account = { uid: number; gid: number; name: string } | null;

/** The system user that runs Postgres when Weir runs as root. */
export const SYSTEM_USER = 'weir';

/** The command that creates SYSTEM_USER. */
export const addUserCommand = [
  'useradd',
  '--system',
  '--no-create-home',
  '--home-dir',
  '/nonexistent',
  '--shell',
  '/usr/sbin/nologin',
  SYSTEM_USER,
] as const;

/**
 * Chooses the account for a data directory: its owner, or an account for a new directory if `pgdata` is missing. `null`: the current
 * user. Creates the system user when Weir runs as root and needs it. Throws EmbeddedPostgresError.
 */
export async function chooseAccount(pgdata: string): Promise<Account> {
  const ourUid = process.getuid!();
  const owner = await stat(pgdata).catch(() => null);
  if (owner !== null) {
    if (ourUid === owner.uid && ourUid !== 0) return null;
    if (ourUid === 0 && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid, name: `number ${owner.uid}` };
    const fix =
      ourUid === 0 ? `run: chown -R ${SYSTEM_USER} ${pgdata}` : 'run Weir as that user, or set another DATA_DIR';
    throw new EmbeddedPostgresError(`The database in ${pgdata} belongs to user id ${owner.uid}`, fix);
  }
  if (ourUid !== 0) {
    checkUserName(ourUid);
    return null;
  }
  const account = (await lookUpUser(SYSTEM_USER)) ?? (await make()) ?? (await lookUpUser('postgres'));
  if (account === null)
    throw new EmbeddedPostgresError(
      `Postgres does not run as root, and the user ${SYSTEM_USER} could not be created`,
      `run: ${addUserCommand.join(' ')} (or run Weir as an ordinary user, or set DATABASE_URL)`,
    );
  return account;

  async function make(): Promise<Account> {
    // Look the user up whatever useradd reports: another Weir may have created it at the same time.
    const [useradd, ...words] = addUserCommand;
    await run(useradd, words).catch(() => {});
    return lookUpUser(SYSTEM_USER);
  }
}

/** initdb looks up the name of the current user. In a container started with a numeric user there may be none. */
function checkUserName(uid: number): void {
  try {
    userInfo();
  } catch {
    throw new EmbeddedPostgresError(
      `User id ${uid} has no name on this machine, and Postgres needs one`,
      'add it to /etc/passwd, or set DATABASE_URL',
    );
  }
}

/** Finds a user of the system; null: the user does not exist. Repeats a look-up that a signal ended. */
export async function lookUpUser(name: string): Promise<Account> {
  try {
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, name])).stdout)),
    );
    return { uid: uid!, gid: gid!, name };
  } catch (error) {
    return (error as { signal?: string | null }).signal ? lookUpUser(name) : null;
  }
}

/**
 * Checks that the account can enter `directory` and all its parents. Throws EmbeddedPostgresError naming the first it cannot enter.
 * @param what runs as the account, for the message
 */
export async function checkWalkable(directory: string, account: Account, what = 'Postgres runs'): Promise<void> {
  if (account === null) return;
  for (let step = await realpath(directory); ; step = dirname(step)) {
    const { mode, uid, gid } = await stat(step);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0)
      throw new EmbeddedPostgresError(
        `${what} as user ${account.name}, which cannot access ${step}`,
        `run: chmod o+x ${step} (or set another DATA_DIR)`,
      );
    if (step === '/') return;
  }
}

/** The embedded Postgres cannot be used; the message gives the reason and the fix. */
export class EmbeddedPostgresError extends OperatorError {}
