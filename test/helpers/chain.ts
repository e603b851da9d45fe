/** One Weir for the tests of a file, with its settings in `.env`: each fault follows on the recovery from the last one. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { type Overrides, PATIENT } from './app.ts';
import { type Sender, type SenderOptions, startSender } from './sender.ts';
import { until } from './wait.ts';
import { PATIENCE_MS, readiness, startWeir, type Weir } from './weir.ts';

/** A start takes the longest, and every process of Weir has to recover. */
const eventually = { timeoutMs: 2 * PATIENCE_MS };
const START_MS = 240_000;

/** What a test may set by `configure`: not in the environment, which has precedence. */
const usual: Overrides = { ...PATIENT, WORKERS: 2, DRAIN_SECONDS: 10 };

export interface Chain {
  /** The one that runs; another one after `startAgain`. */
  readonly weir: Weir;
  /** A webhook without limits. */
  readonly webhook: { id: string; path: string; secret: string };
  /** Log lines of the present test with this `event`. */
  events(name: string): Record<string, unknown>[];
  /** Sends to the webhook until the test ends, by default about 500 events a second; resolves when the first were accepted. */
  startLoad(options?: Partial<SenderOptions> & { first?: number }): Promise<Sender>;
  /** Restarts the processes with these settings instead of the last ones. */
  configure(settings?: Overrides): Promise<void>;
  /** After the end of Weir: starts it on the same DATA_DIR, with these settings in `.env`. */
  startAgain(settings?: Overrides): Promise<void>;
  /** Waits until every process serves and can commit. */
  recovered(): Promise<void>;
}

/**
 * Starts a Weir before the tests of this file, and stops it after them.
 * @param prepare what differs from startWeir's usual: settings of the environment, and how the test reaches the database
 */
export function chainOf(
  prepare: () => Promise<{ environment?: Overrides; entry?: string }> = async () => ({}),
  settings: Overrides = {},
): Chain {
  let weir: Weir;
  let webhook: Chain['webhook'];
  let directory: string;
  let prepared: Awaited<ReturnType<typeof prepare>>;
  let configured: Overrides;
  let lines = 0;

  const write = async (given: Overrides) => {
    configured = { ...usual, ...given };
    const text = Object.entries(configured).map(([name, value]) => `${name}=${value}\n`);
    await writeFile(join(directory, '.env'), text.join(''));
  };
  const start = async (more: Overrides = {}) => {
    const unset = Object.fromEntries(Object.keys(usual).map((name) => [name, '']));
    const { environment = {}, ...from } = prepared;
    weir = await startWeir({ ...unset, ...environment, ...more }, { ...from, directory });
  };
  const recovered = async () => {
    const count = Number(configured.WORKERS);
    const committing = async () =>
      (await weir.metric('weir_processes').catch(() => -1)) === count &&
      (await weir.metric('weir_database_up').catch(() => -1)) === count;
    await until(committing, eventually);
    await until(async () => (await readiness(weir.port))?.status === 200, eventually);
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'weir-home-'));
    prepared = await prepare();
    await write(settings);
    await start();
    webhook = await weir.addWebhook();
  }, START_MS);
  afterAll(async () => {
    await weir?.stop();
    await rm(directory, { recursive: true });
  }, START_MS);
  beforeEach(async () => {
    if (weir.child.exitCode !== null || weir.child.signalCode !== null)
      throw new Error('Weir has ended in a test before');
    await recovered();
    lines = weir.lines.length;
  }, START_MS);

  return {
    get weir() {
      return weir;
    },
    get webhook() {
      return webhook;
    },
    events: (name) => weir.events(name, lines),
    async startLoad({ first = 300, ...options } = {}) {
      const sender = startSender({ port: weir.port, ...webhook, ...options });
      onTestFinished(() => sender.stop());
      await sender.acceptMore(first);
      return sender;
    },
    async configure(given = {}) {
      const known = weir.events('restarted').length;
      await write(given);
      weir.signal('SIGHUP');
      await until(() => weir.events('restarted').length > known, eventually);
    },
    async startAgain(given = {}) {
      const { dataDir } = weir;
      await weir.forget();
      await write(given);
      await start({ DATA_DIR: dataDir });
      lines = 0;
    },
    recovered,
  };
}
