/** A complete serving process inside the test process: real port, real Postgres, real threads, relayed changes. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readSettings, type Settings } from '../../server/base/settings/read.ts';
import type { settingTable } from '../../server/base/settings/table.ts';
import { createLog } from '../../server/base/telemetry/log.ts';
import type { StartWait } from '../../server/manage/api/status/health.ts';
import type { Webhooks } from '../../server/manage/api/webhooks/webhook-changes.ts';
import type { NewWebhook } from '../../server/model/webhooks.ts';
import { UndoStack } from '../../server/operate/primary/ending.ts';
import { RunFolder } from '../../server/operate/primary/run-folder.ts';
import { type App, startApp } from '../../server/operate/process/app.ts';
import { asRole } from '../../server/store/connect/conninfo.ts';
import { ChangeListener } from '../../server/store/connect/listen.ts';
import { SERVING_ROLE } from '../../server/store/embedded/serving-role.ts';
import { createPartitions, readHorizon } from '../../server/store/retention/partitions.ts';
import { loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import { type FreshDatabase, freshDatabase } from './postgres.ts';
import { PATIENCE_MS, until } from './wait.ts';
import { made, newWebhook, webhooksOf } from './webhooks.ts';

/** As operators write them, by setting name. */
export type Overrides = Partial<Record<keyof typeof settingTable, string | number>>;

export interface TestWebhook {
  id: string;
  /** URL of the webhook. */
  url: string;
  /** Its path. */
  path: string;
  secret: string | null;
}

type SharedDatabase = Pick<FreshDatabase, 'database' | 'sql' | 'conninfo' | 'cutOff' | 'restore'>;

export interface TestApp extends SharedDatabase {
  app: App;
  settings: Settings;
  port: number;
  /** `http://127.0.0.1:PORT` */
  url: string;
  webhooks: Webhooks;
  /** Creates a webhook that the app knows when this resolves; with a secret unless it is null. */
  addWebhook(given?: Partial<NewWebhook>): Promise<TestWebhook>;
  /** Log lines so far, each a JSON document. */
  logLines: string[];
  /** Value of a gauge, or a counter's sum over its labels. */
  metric(name: string): Promise<number>;
  /** Drains and drops the database. */
  stop(): Promise<void>;
}

/** A machine with more work than processors may take longer than the defaults. A test of such a limit sets it. */
export const PATIENT: Overrides = {
  COMMIT_TIMEOUT_MS: 60_000,
  HMAC_TIMEOUT_MS: 60_000,
  FILTER_TIMEOUT_MS: 60_000,
  CLIENT_UNREAD_SECONDS: 3_600,
};

const workers = fileURLToPath(new URL('../../dist/workers', import.meta.url));

/** Limits high enough for all tests, time limits long enough for a busy machine, and every line in the log. */
const usual: Overrides = {
  ...PATIENT,
  RATE_LIMIT_INGEST_MAX: 1_000_000,
  RATE_LIMIT_SIGN_IN_MAX: 1_000_000,
  RATE_LIMIT_ANONYMOUS_MAX: 1_000_000,
  LOG_LEVEL: 'trace',
  DRAIN_SECONDS: 1,
};

/**
 * Starts on a free port with a fresh database; stop it in the end.
 * @param beside what has a database that this app shares, as a process of another machine does; stop that one last. Secrets open
 * at both only with one SECRETS_KEY.
 * @param awaited what the start of Weir waits for; `app.useDatabase()` ends the wait.
 */
export async function startTestApp(
  overrides: Overrides = {},
  beside?: SharedDatabase,
  awaited?: StartWait,
): Promise<TestApp> {
  const undo = new UndoStack();
  try {
    return await start(overrides, undo, beside, awaited);
  } catch (error) {
    await undo.run();
    throw error;
  }
}

async function start(
  overrides: Overrides,
  undo: UndoStack,
  beside: SharedDatabase | undefined,
  awaited: StartWait | undefined,
): Promise<TestApp> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-app-'));
  undo.push(() => rm(directory, { recursive: true }));
  const given = Object.entries({ ...usual, DATA_DIR: directory, ...overrides }).map(([name, value]) => [
    name,
    String(value),
  ]);
  // The schema does not allow PORT 0: a free port is only for tests.
  const settings = { ...readSettings(Object.fromEntries(given), directory), PORT: Number(overrides.PORT ?? 0) };
  const keys = loadSecretsKeys(settings);
  const fresh = beside === undefined ? await freshDatabase() : null;
  if (fresh !== null) undo.push(fresh.drop);
  const { conninfo, database, sql, cutOff, restore } = fresh ?? beside!;
  await createPartitions(database, Date.now());
  const horizon = (await readHorizon(database))!;

  const logLines: string[] = [];
  const log = createLog(
    { write: (line) => logLines.push(line), flush: () => {}, dropped: () => 0 },
    settings.LOG_LEVEL,
    {},
  );
  const runFolder = new RunFolder(settings.DATA_DIR, null, log);
  undo.push(() => runFolder.close());
  const waiting = awaited === undefined ? {} : { awaitsDatabase: true, awaited };
  const identityRequestSeconds = PATIENCE_MS / 1_000;
  const order = {
    settings,
    conninfo: asRole(conninfo, SERVING_ROLE),
    keys,
    horizon,
    history: [],
    identityRequestSeconds,
    ...(runFolder.path !== undefined && { runFolder: runFolder.path }),
    ...waiting,
  };
  const app = await startApp(order, log, workers);
  undo.push(() => app.drain());
  runFolder.point([process.pid]);
  const listening = await listen(conninfo, app);
  undo.push(() => listening.stop());

  const url = `http://127.0.0.1:${app.port}`;
  const webhooks = webhooksOf({ database }, keys);
  return {
    app,
    settings,
    port: app.port,
    url,
    database,
    sql,
    conninfo,
    cutOff,
    restore,
    webhooks,
    logLines,
    async addWebhook({ secret = 'a secret between friends', ...rest } = {}) {
      const { id } = made(await webhooks.add(newWebhook({ ...rest, secret })));
      return { id, url: `${url}/in/${id}`, path: `/in/${id}`, secret };
    },
    metric: (name) => metricOf(app, name),
    stop: () => undo.run(),
  };
}

/** Value of a gauge, or a counter's sum over its labels. */
export async function metricOf({ metrics }: Pick<App, 'metrics'>, name: string): Promise<number> {
  const families = (await metrics()) as { name: string; values: { value: number }[] }[];
  const family = families.find((candidate) => candidate.name === name);
  if (family === undefined) throw new Error(`there is no metric ${name}`);
  return family.values.reduce((sum, { value }) => sum + value, 0);
}

/** Relays changes as the primary does. Resolves when it listens. */
export async function listen(conninfo: string, app: App): Promise<ChangeListener> {
  let up = false;
  const listener = new ChangeListener(conninfo, {
    // If the database cannot be queried, the cached state is already discarded, which is what matters.
    change: (payload) => app.change(payload).catch(() => {}),
    arrived: (by) => app.arrived(by),
    alive: () => app.recordHeartbeat(),
    up: () => {
      up = true;
      app.changesLost();
    },
    lost: async () => {},
    down: () => {},
  });
  listener.start();
  await until(() => up);
  return listener;
}
