/** One Weir whose builds and settings change, break and hang: old processes serve until new ones do. */
import { mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach } from 'vitest';
import { chainOf } from '../helpers/chain.ts';
import { type Installation, installWeir } from '../helpers/installation.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { someKey } from '../helpers/settings.ts';
import { crashLoopTests, hangingTests, restartTests } from './releases/restart.ts';
import { upgradeTests } from './releases/upgrade.ts';

/** `releases/one` and `releases/two`, and the link `current` to one of them. */
let directory: string;
let one: Installation;
let two: Installation;
let database: FreshDatabase;
// Runs after the hook of the chain, which stops Weir.
afterAll(async () => {
  await database.drop();
  await rm(directory, { recursive: true });
});

async function use(name: 'one' | 'two'): Promise<void> {
  await symlink(join('releases', name), join(directory, 'next'));
  await rename(join(directory, 'next'), join(directory, 'current'));
}

/** What a client sees of a build. */
const says = (word: string) => (built: string) => built.replace('status: "ok" }', `status: "${word}" }`);

const chain = chainOf(
  async () => {
    directory = await mkdtemp(join(tmpdir(), 'weir-u-'));
    one = await installWeir(join(directory, 'releases/one'));
    two = await installWeir(join(directory, 'releases/two'));
    await two.replace('server/manage/api/status/health.ts', says('new'));
    await use('one');
    database = await freshDatabase();
    return {
      environment: { DATABASE_URL: database.conninfo, SECRETS_KEY: someKey },
      entry: join(directory, 'current/dist/server/cli/weir.js'),
    };
  },
  // A test that waited for these would not end.
  { DRAIN_SECONDS: 600 },
);
beforeEach(() => chain.set());

const releases = {
  get one() {
    return one;
  },
  get two() {
    return two;
  },
  use,
};

crashLoopTests(chain, () => one);
restartTests(chain, () => one);
upgradeTests(chain, releases);
hangingTests(chain, () => two);
