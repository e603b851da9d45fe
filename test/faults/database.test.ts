/** One Weir with its embedded Postgres, whose processes and database fail in turn: it recovers by itself each time. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { chainOf } from '../helpers/chain.ts';
import { canMount, mountSmallDisk } from '../helpers/small-disk.ts';
import { copyDataDir } from '../helpers/weir.ts';
import { fullDiskTests } from './database/full-disk.ts';
import { hungSettings, hungTests } from './database/hung.ts';
import { killTests, primaryTests } from './database/kill.ts';
import { readOnlyTests } from './database/read-only.ts';
import { standbyTests } from './database/standby.ts';
import { starvedTests } from './database/starved.ts';

const DISK_SIZE = '2g';

let disk: string | undefined;
let unmount = () => {};

// Runs after the hook of the chain, which stops Weir.
afterAll(async () => {
  unmount();
  if (disk !== undefined) await rm(disk, { recursive: true });
});

/** DATA_DIR on a disk of its own, where that is possible. */
const chain = chainOf(
  async () => {
    if (!canMount) return {};
    disk = await mkdtemp(join(tmpdir(), 'weir-d-'));
    unmount = mountSmallDisk(disk, DISK_SIZE, 0o755);
    const dataDir = join(disk, 'data');
    await mkdir(dataDir, { mode: 0o711 });
    return { environment: { DATA_DIR: await copyDataDir(dataDir) } };
  },
  { COMMIT_TIMEOUT_MS: 600_000 },
);
// A lost connection must be detected by its socket (an error may wake no poller, see store/copy/connection.ts), not by COMMIT_TIMEOUT_MS.
killTests(chain);
starvedTests(chain);
standbyTests(chain);
readOnlyTests(chain);
primaryTests(chain, hungSettings);
hungTests(chain);
fullDiskTests(chain, () => disk!, DISK_SIZE);
