/** The spool: while Postgres cannot commit, events are answered 202, and afterwards each of them is stored once, whatever was killed. */
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { chainOf } from '../helpers/chain.ts';
import { cutOff } from '../helpers/cut-off.ts';
import { hold, rowsOf } from '../helpers/hold.ts';
import { look, postgresPids } from '../helpers/processes.ts';
import { missing, type Sender, type SenderOptions } from '../helpers/sender.ts';
import { canMount, mountSmallDisk, resizeDisk, skippedNote } from '../helpers/small-disk.ts';
import { until } from '../helpers/wait.ts';
import { untilSaved } from '../helpers/webhooks.ts';
import { kill, readiness } from '../helpers/weir.ts';
import { frozen } from './kinds.ts';

const SPOOL_BYTES_MAX = 16_777_216;
/** A spool that is full by INGEST_SPOOL_BYTES_MAX does not fill it. */
const DISK_SIZE = '64m';

let spoolDir: string;
let unmount = () => {};
// Runs after the hook of the chain, which stops Weir.
afterAll(async () => {
  unmount();
  await rm(spoolDir, { recursive: true, force: true });
});

const chain = chainOf(
  async () => {
    spoolDir = await mkdtemp(join(tmpdir(), 'weir-spool-'));
    // The account of the serving processes must reach it.
    await chmod(spoolDir, 0o711);
    if (canMount) unmount = mountSmallDisk(spoolDir, DISK_SIZE, 0o711);
    return { environment: { INGEST_SPOOL_DIR: spoolDir, INGEST_SPOOL_BYTES_MAX: SPOOL_BYTES_MAX } };
  },
  // A frozen Postgres answers nothing.
  { COMMIT_TIMEOUT_MS: 5_000 },
);

/** Sends to a webhook of its own. */
async function startLoad(options: Partial<SenderOptions> & { first?: number } = {}) {
  const webhook = await chain.weir.addWebhook();
  const sender = await chain.startLoad({ first: 200, ...options, ...webhook });
  return { webhook, sender };
}

/** Every event that was answered is stored, none twice, and the spool is empty. */
async function expectEachStoredOnce({ webhook, sender }: { webhook: { id: string }; sender: Sender }): Promise<void> {
  await sender.stop();
  await until(async () => (await filesOfSpool()).length === 0);
  const { database } = chain.weir;
  expect(await missing(database, sender.accepted)).toEqual([]);
  const text = 'select (count(*) - count(distinct body))::int as repeated from events where webhook_id = $1';
  expect(await database.query({ text, values: [webhook.id] })).toEqual([{ repeated: 0 }]);
}

async function filesOfSpool(): Promise<string[]> {
  return (await readdir(spoolDir, { recursive: true })).filter((name) => name.includes('/'));
}

const databaseIs = (state: string) => until(async () => (await readiness(chain.weir.port))?.checks.database === state);
const isGone = async (pid: number) => (await look(pid)) === null;

test('Postgres away: requests get 202, a killed process loses nothing, and the spool drains when Postgres is back', async () => {
  const { weir } = chain;
  const load = await startLoad();
  const { sender } = load;
  const key = (await readFile(join(weir.dataDir, 'secrets.key'), 'utf8')).trim();
  await untilSaved(weir.dataDir, key, load.webhook.id, weir.database);
  const { restore } = await cutOff(chain.weir.conninfo);
  await sender.acceptMore(600);
  await databaseIs('spooling');
  expect((await readiness(weir.port))?.status).toBe(200);
  await until(async () => (await weir.metric('weir_spool_events')) >= 300);
  expect(await weir.metric('weir_spool_bytes')).toBeGreaterThan(300 * 600);

  const [killed] = await weir.servingPids();
  kill(killed!, 'SIGKILL');
  await until(() => isGone(killed!));
  await sender.acceptMore(600);
  // Its replacement knows the webhook from the copy in DATA_DIR, so it listens during the outage.
  await until(() => chain.events('process_up').length > 0);
  expect(sender.refusals).toEqual([]);

  await restore();
  await databaseIs('ok');
  await sender.acceptMore(200);
  await expectEachStoredOnce(load);
  expect(sender.refusals).toEqual([]);
  await until(async () => (await weir.metric('weir_spool_events')) === 0);
  await until(() => chain.events('spool_drained').length > 0);
  await until(async () => (await weir.servingPids()).length === 2);
});

test('Postgres frozen, and killed during the drain', async () => {
  const { weir } = chain;
  const load = await startLoad();
  const { sender } = load;
  const drained = await weir.metric('weir_spool_events_drained_total');
  const { postmaster, backends } = (await postgresPids(weir.dataDir))!;
  const thaw = frozen([postmaster, ...backends]);
  await sender.acceptMore(600);
  await databaseIs('spooling');
  thaw();
  await until(async () => (await weir.metric('weir_spool_events_drained_total')) > drained);
  kill((await postgresPids(weir.dataDir))!.postmaster, 'SIGKILL');
  await sender.acceptMore(300);
  await databaseIs('ok');
  await sender.acceptMore(100);
  expect(sender.refusals).toEqual([]);
  expect(sender.losses).toEqual([]);
  await expectEachStoredOnce(load);
});

/** Postgres is away until so many requests were refused, then Weir recovers. */
async function expectRefusals(options: Parameters<typeof startLoad>[0], during: () => Promise<unknown>): Promise<void> {
  const load = await startLoad({ lanes: 8, first: 20, ...options });
  const { restore } = await cutOff(chain.weir.conninfo);
  await until(() => load.sender.refusals.length > 20);
  expect(new Set(load.sender.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
  await until(async () => (await readiness(chain.weir.port))?.status === 503);
  await during();
  await restore();
  // Room is found as soon as files are drained.
  await databaseIs('ok');
  await expectEachStoredOnce(load);
}

test('a full spool refuses events, keeps what it has, and drains', async () => {
  await expectRefusals({ bodyBytes: 200_000 }, async () => {
    expect((await readiness(chain.weir.port))?.checks.database).toBe('failing');
    expect(await chain.weir.metric('weir_spool_bytes')).toBeLessThanOrEqual(SPOOL_BYTES_MAX);
    expect(await chain.weir.metric('weir_spool_events')).toBeGreaterThan(40);
  });
});

const isFull = () => chain.events('spool_failed').some(({ reason }) => /ENOSPC/.test(String(reason)));

test.runIf(canMount)(
  `a full disk of the spool${skippedNote}: events are refused, and what was answered is stored`,
  async () => {
    // Smaller than INGEST_SPOOL_BYTES_MAX may be.
    resizeDisk(spoolDir, '6m');
    await expectRefusals({ bodyBytes: 100_000 }, async () => {
      await until(isFull);
      expect(await chain.weir.metric('weir_spool_events')).toBeGreaterThan(5);
    });
    resizeDisk(spoolDir, DISK_SIZE);
  },
);

test.runIf(canMount)(`a process starts while the disk of the spool is full${skippedNote}`, async () => {
  const { weir } = chain;
  resizeDisk(spoolDir, '1m');
  const ballast = join(spoolDir, 'ballast');
  await expect(writeFile(ballast, Buffer.alloc(2_000_000))).rejects.toMatchObject({ code: 'ENOSPC' });
  const [killed] = await weir.servingPids();
  kill(killed!, 'SIGKILL');
  await until(() => chain.events('process_up').length > 0);
  await until(isFull);
  await rm(ballast);
  resizeDisk(spoolDir, DISK_SIZE);
});

test('the primary killed while it spools, and while it drains', async () => {
  const load = await startLoad();
  const { sender } = load;
  const killWeir = async () => {
    const { weir } = chain;
    const processes = await weir.servingPids();
    kill(weir.pid, 'SIGKILL');
    await until(async () => (await Promise.all([weir.pid, ...processes].map(isGone))).every(Boolean));
    await sender.stop();
  };
  const { restore } = await cutOff(chain.weir.conninfo);
  await sender.acceptMore(600);
  await killWeir();
  await restore();

  // The drain is held in the middle of a transaction.
  const { conninfo } = chain.weir;
  const release = await hold(conninfo, 'lock table events in share mode');
  onTestFinished(release);
  await chain.startAgain();
  const waiting = `select from pg_stat_activity where application_name = 'weir-spool' and wait_event_type = 'Lock'`;
  await until(async () => (await rowsOf(conninfo, waiting)).length > 0);
  expect((await filesOfSpool()).some((name) => name.endsWith('.draining'))).toBe(true);
  await killWeir();
  await release();
  await chain.startAgain();
  await expectEachStoredOnce(load);
});
