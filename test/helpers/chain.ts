/** One Weir for the tests of a file, with its settings in `.env`: each fault follows on the recovery from the last one. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished } from 'vitest';
import { type Overrides, PATIENT } from './app.ts';
import { type Sender, type SenderOptions, startSender } from './sender.ts';
import { PATIENCE_MS, until } from './wait.ts';
import { readiness, startWeir, type Weir } from './weir.ts';

/** A start takes the longest, and every process of Weir has to recover. */
const eventually = { timeoutMs: 2 * PATIENCE_MS };

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
  /** Writes these settings, also unknown ones, to `.env`, beside those of the chain: the next processes have them. */
  set(settings?: Readonly<Record<string, string | number>>): Promise<void>;
  /** Sends HUP; returns the last log line of the restart. */
  restart(): Promise<Record<string, unknown>>;
  /** Both. */
  configure(settings?: Overrides): Promise<void>;
  /** After the end of Weir: starts it on the same DATA_DIR, with these settings in `.env`, and a changed environment. */
  startAgain(settings?: Overrides, environment?: Overrides): Promise<void>;
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
  /** Number of processes at the end of a test. */
  let processes: number;
  let lines = 0;

  const set = async (given: Overrides | Readonly<Record<string, string | number>> = {}) => {
    const all = { ...usual, ...settings, ...given };
    const text = Object.entries(all).map(([name, value]) => `${name}=${value}\n`);
    await writeFile(join(directory, '.env'), text.join(''));
    return Number(all.WORKERS);
  };
  const start = async (more: Overrides = {}) => {
    const unset = Object.fromEntries(Object.keys(usual).map((name) => [name, '']));
    const { environment = {}, ...from } = prepared;
    weir = await startWeir({ ...unset, ...environment, ...more }, { ...from, directory });
  };
  const recovered = async () => {
    const committing = async () =>
      (await weir.metric('weir_processes').catch(() => -1)) === processes &&
      (await weir.metric('weir_database_up').catch(() => -1)) === processes;
    await until(committing, eventually);
    await until(async () => (await readiness(weir.port))?.status === 200, eventually);
  };
  const restart = async () => {
    const ends = () => [...weir.events('restarted'), ...weir.events('restart_failed')];
    const known = ends();
    weir.signal('SIGHUP');
    return until(() => ends().find((end) => !known.includes(end)), eventually);
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'weir-home-'));
    prepared = await prepare();
    processes = await set();
    await start();
    webhook = await weir.addWebhook();
  });
  afterAll(async () => {
    await weir?.stop();
    await rm(directory, { recursive: true });
  });
  beforeEach(async () => {
    if (weir.child.exitCode !== null || weir.child.signalCode !== null)
      throw new Error('Weir has ended in a test before');
    await recovered();
    lines = weir.lines.length;
  });

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
    set: async (given) => void (await set(given)),
    restart,
    async configure(given) {
      processes = await set(given);
      expect(await restart()).toMatchObject({ event: 'restarted', replaced: processes });
    },
    async startAgain(given = {}, environment = {}) {
      const { dataDir } = weir;
      await weir.forget();
      processes = await set(given);
      await start({ DATA_DIR: dataDir, ...environment });
      lines = 0;
    },
  };
}
