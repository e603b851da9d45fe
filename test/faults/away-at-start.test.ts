/** Weir is started while Postgres is away: it waits, refuses what it cannot store, and serves as soon as Postgres answers. */
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, rm } from 'node:fs/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Link } from '../helpers/link.ts';
import { freePort } from '../helpers/ports.ts';
import { emptyDatabase, type FreshDatabase } from '../helpers/postgres.ts';
import { signedRequest } from '../helpers/requests.ts';
import { builtScript } from '../helpers/script.ts';
import { temporaryDirectory } from '../helpers/settings.ts';
import { PATIENCE_MS, until } from '../helpers/wait.ts';
import { made, newWebhook, untilSaved, webhooksOf } from '../helpers/webhooks.ts';
import { kill, makeDataDir, readiness, spawnWeir } from '../helpers/weir.ts';

/** A start takes longest. */
const slow = { timeout: 600_000 };
const eventually = { timeoutMs: 2 * PATIENCE_MS };
const SECRETS_KEY = randomBytes(32).toString('base64');

let fresh: FreshDatabase;
let dataDir: string;
let door: Link;
let weir: ReturnType<typeof spawnWeir>;
let port: number;

beforeEach(async () => {
  fresh = await emptyDatabase();
  dataDir = await makeDataDir();
  door = await closedDoor(fresh.conninfo);
});
afterEach(async () => {
  weir.child.kill('SIGTERM');
  await weir.ended;
  door.close();
  await fresh.drop();
  await rm(dataDir, { recursive: true, force: true });
}, slow.timeout);

/** A port in front of the Postgres of the run. While it is closed, connections are refused, as when the machine runs and Postgres does not. */
function closedDoor(conninfo: string): Promise<Link> {
  const word = (name: string) => new RegExp(`${name}='?([^' ]+)`).exec(conninfo)![1]!;
  return Link.closed(`${word('host')}/.s.PGSQL.${word('port')}`);
}

const urlOf = (database = fresh.name) => `postgresql://weir@127.0.0.1:${door.port}/${database}`;

async function start(databaseUrl: string, settings: Record<string, string> = {}, entry?: string): Promise<void> {
  port = await freePort();
  const ports = { PORT: port, METRICS_PORT: await freePort() };
  const given = { DATABASE_URL: databaseUrl, SECRETS_KEY, DATA_DIR: dataDir, WORKERS: 1, ...ports, ...settings };
  weir = spawnWeir(given, entry === undefined ? {} : { entry });
}

const post = (id: string, secret = 'any') => fetch(`http://127.0.0.1:${port}/in/${id}`, signedRequest({ secret }));
const refused = () => until(() => post(randomUUID()).catch(() => null), eventually);

test('without a spool: 503 until Postgres answers, and then a start as any other', slow, async () => {
  await start(urlOf());
  const answer = await refused();
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({ code: 'database_unavailable' });
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
  expect(await readiness(port)).toMatchObject({ status: 503, checks: { database: 'failing' } });
  // Repeated once a minute.
  expect(weir.events('database_awaited')[0]).toMatchObject({ reason: expect.stringContaining('Connection refused') });
  expect(weir.events('listening')).toEqual([]);

  await door.open();
  await until(() => weir.events('listening').length > 0, eventually);
  expect(weir.events('migrated').length).toBeGreaterThan(0);
  await until(async () => (await readiness(port))?.status === 200, eventually);
  expect((await post(randomUUID())).status).toBe(404);
});

test('while Weir waits, HUP, TTIN and TTOU work, and a process that hangs is replaced', slow, async () => {
  await start(urlOf(), { PROCESS_SILENT_SECONDS: '15' });
  await refused();
  const logged = (event: string, count: number) => until(() => weir.events(event).length >= count, eventually);
  weir.child.kill('SIGTTIN');
  await logged('process_up', 2);
  weir.child.kill('SIGTTOU');
  await logged('processes_changed', 2);
  weir.child.kill('SIGHUP');
  await logged('restarted', 1);
  const { process } = weir.events('process_up').at(-1)!;
  kill(process as number, 'SIGSTOP');
  const exit = () => weir.events('process_exited').find((line) => line.process === process);
  expect((await until(exit, eventually)).reason).toContain('PROCESS_SILENT_SECONDS');
  expect((await refused()).status).toBe(503);
  expect(weir.events('listening')).toEqual([]);
});

test('on a terminal, Weir says that it receives webhooks only when it does', slow, async () => {
  const entry = await builtScript(
    `import { runPrimary } from '#server/operate/primary/primary.ts';
     import { loadSettings } from '#server/base/settings/read.ts';
     process.exitCode = await runPrimary(() => loadSettings(process.env, '${dataDir}'), true);`,
  );
  const greeted = () => weir.lines.some((line) => line.includes('Weir receives webhooks at'));
  await start(urlOf(), {}, entry);
  await refused();
  weir.child.kill('SIGINT');
  expect(await weir.ended).toBe(0);
  expect(greeted()).toBe(false);

  await door.open();
  await start(urlOf(), {}, entry);
  await until(greeted, eventually);
  expect(weir.lines.filter((line) => line !== '').slice(0, 2)).toEqual([
    expect.stringContaining('Weir starts'),
    expect.stringContaining('Weir receives webhooks at'),
  ]);
});

test('a database that then refuses the settings ends the start', slow, async () => {
  await start(urlOf('missing'));
  await refused();
  await door.open();
  expect(await weir.ended).toBe(1);
  expect(weir.stderr()).toMatch(
    /^weir: the database at .* cannot be used: .*"missing" does not exist; check DATABASE_URL/,
  );
});

test('with a spool: events are verified by the webhooks as last read, spooled, and stored once', slow, async () => {
  const spoolDir = temporaryDirectory();
  // The account of the serving processes must reach it.
  await chmod(spoolDir, 0o711);
  await door.open();
  await start(urlOf(), { INGEST_SPOOL_DIR: spoolDir });
  await until(() => weir.events('listening').length > 0, eventually);
  const secret = 'a secret between friends';
  const { id } = made(await webhooksOf(fresh, [SECRETS_KEY]).add(newWebhook({ secret })));
  await untilSaved(dataDir, SECRETS_KEY, id, fresh.database);
  kill(weir.pid, 'SIGKILL');
  await weir.ended;
  door.close();

  await start(urlOf(), { INGEST_SPOOL_DIR: spoolDir });
  const answer = await until(() => post(id, secret).catch(() => null), eventually);
  expect(answer.status).toBe(202);
  const accepted = (await answer.json()) as { id: string };
  expect((await post(id, 'another secret')).status).toBe(403);
  // Without the database, it is unknown whether this webhook exists.
  expect((await post(randomUUID())).status).toBe(503);
  expect(await readiness(port)).toMatchObject({ status: 200, checks: { database: 'spooling' } });
  expect(weir.events('listening')).toEqual([]);

  await door.open();
  const stored = () => fresh.sql(`select id from events where webhook_id = '${id}'`);
  await until(async () => (await stored()).length > 0, eventually);
  expect(await stored()).toEqual([{ id: accepted.id }]);
  await until(async () => (await readiness(port))?.checks.database === 'ok', eventually);
});
