/** One Weir for the tests of a file, with two cells on Postgres servers of their own: each fault follows on the recovery from the last one. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { type EmbeddedPostgres, joinEmbeddedPostgres } from '../../../server/store/embedded/join.ts';
import { uuidv7Cell } from '../../../server/store/ids.ts';
import type { Overrides } from '../../helpers/app.ts';
import { look } from '../../helpers/processes.ts';
import { missing, type Sender, type SenderOptions, startSender } from '../../helpers/sender.ts';
import { canMount, mountSmallDisk } from '../../helpers/small-disk.ts';
import { until } from '../../helpers/wait.ts';
import { ask, kill, makeDataDir, spawnWeir, startWeir, type Weir } from '../../helpers/weir.ts';

export const DISK_SIZE = '2g';
const CELLS = [1, 2] as const;
const secret = 'a secret between friends';

export interface Server {
  dataDir: string;
  postgres: EmbeddedPostgres;
  database: Database;
}

interface TestedWebhook {
  id: string;
  path: string;
  secret: string;
}

export interface CellInstallation {
  /** The one that runs; another one after `killWeir` and `startAgain`. */
  readonly weir: Weir;
  /** Cell 1 and 2; DATA_DIR of cell 1 is on a disk of its own, where that is possible. */
  readonly servers: Server[];
  /** One in each cell, home first. */
  readonly webhooks: TestedWebhook[];
  /** Runs a command on the machine of Weir. Throws when it fails. */
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  command(...args: string[]): Promise<any>;
  /** Starts one, which ends as it likes. */
  spawn(...args: string[]): ReturnType<typeof spawnWeir>;
  /** Adds a cell by its connection string. Returns its number. */
  addCell(conninfo: string): Promise<number>;
  addWebhook(cell: number, ...more: string[]): Promise<TestedWebhook>;
  /** Starts the server of `servers[place]`, after its end. */
  restartServer(place: number): Promise<void>;
  /** kill -9 of the primary; resolves when its processes have ended too. */
  killWeir(): Promise<void>;
  /** Starts Weir at the same port, with these settings. */
  startAgain(settings?: Overrides): Promise<void>;
  /** A sender to each webhook, home first. */
  startLoad(options?: (cell: number) => Partial<SenderOptions>): Promise<Sender[]>;
  /** `cells_away` of readyz. */
  cellsAway(): Promise<number[]>;
  /** The senders go on after the fault; then each event is in the server of its webhook. */
  expectNothingLost(senders: readonly Sender[]): Promise<void>;
  /** A test of a fault of one server under load: only the webhooks of its cell are refused, and nothing is lost. */
  test(title: string, fault: CellFault): void;
}

interface CellFault {
  /** False: this machine cannot make it, and the test is skipped. */
  possible?: boolean;
  cell: 1 | 2;
  load?: Partial<SenderOptions>;
  /** Makes it; returns how it is undone. */
  make(server: Server): Promise<() => unknown>;
  /** What holds while it lasts. */
  during?(sender: Sender): unknown;
}

export function cellInstallation(): CellInstallation {
  let weir: Weir;
  const servers: Server[] = [];
  const webhooks: TestedWebhook[] = [];
  let unmount = () => {};

  const spawn = (...args: string[]) =>
    spawnWeir({ DATA_DIR: weir.dataDir, WORKERS: 2 }, { command: [...args, '--json'] });
  const command = async (...args: string[]) => {
    const started = spawn(...args);
    const code = await started.ended;
    if (code !== 0) throw new Error(`weir ${args.join(' ')} ended with ${code}: ${started.stderr()}`);
    return JSON.parse(started.lines.join('\n'));
  };
  const addCell = async (conninfo: string) => {
    const file = join(weir.dataDir, 'cell');
    await writeFile(file, conninfo);
    const { number } = await command('cell', 'add', '--database-file', file);
    return number as number;
  };
  const addWebhook = async (cell: number, ...more: string[]) => {
    const given = ['--name', `in ${cell}`, '--cell', String(cell), '--secret', secret];
    const { id } = await command('webhook', 'add', ...given, ...more);
    return { id, path: `/in/${id}`, secret };
  };
  const cellsAway = async () => {
    const { body } = await ask(weir.port, '/readyz');
    return (JSON.parse(body) as { cells_away?: number[] }).cells_away ?? [];
  };

  beforeAll(async () => {
    weir = await startWeir();
    for (const number of CELLS) {
      const dataDir = await makeDataDir();
      if (number === 1 && canMount) unmount = mountSmallDisk(dataDir, DISK_SIZE, 0o711);
      servers.push(await startServer(dataDir));
      await addCell(servers.at(-1)!.postgres.conninfo);
    }
    for (const cell of [0, ...CELLS]) webhooks.push(await addWebhook(cell));
  });
  afterAll(async () => {
    for (const { database } of servers) await database.close();
    await weir?.stop();
    for (const { postgres } of servers) await postgres.leave();
    unmount();
    for (const { dataDir } of servers) await rm(dataDir, { recursive: true, force: true });
  });

  return {
    get weir() {
      return weir;
    },
    test(title, { possible = true, cell, load = {}, make, during }) {
      test.runIf(possible)(title, async () => {
        const senders = await this.startLoad((number) => (number === cell ? load : {}));
        const others = senders.filter((_, number) => number !== cell);
        const undo = await make(servers[cell - 1]!);
        try {
          await until(async () => senders[cell]!.refusals.length > 0 || (await cellsAway()).includes(cell));
          await Promise.all(others.map((sender) => sender.acceptMore(100)));
          await during?.(senders[cell]!);
        } finally {
          await undo();
        }
        await this.expectNothingLost(senders);
        expect(others.flatMap(({ refusals }) => refusals)).toEqual([]);
        const refusals = senders[cell]!.refusals.map(({ status, code }) => `${status} ${code}`);
        expect(refusals.filter((refusal) => refusal !== '503 database_unavailable')).toEqual([]);
        expect(senders.flatMap(({ losses }) => losses)).toEqual([]);
      });
    },
    servers,
    webhooks,
    command,
    spawn,
    addCell,
    addWebhook,
    async restartServer(place) {
      const before = servers[place]!;
      servers[place] = await startServer(before.dataDir);
      await before.database.close();
      await before.postgres.leave();
    },
    async killWeir() {
      const pids = [weir.pid, ...(await weir.servingPids())];
      kill(weir.pid, 'SIGKILL');
      await until(async () => (await Promise.all(pids.map(look))).every((seen) => seen === null));
      await weir.forget();
    },
    async startAgain(settings = {}) {
      const { dataDir, port } = weir;
      weir = await startWeir({ DATA_DIR: dataDir, PORT: port, ...settings });
    },
    async startLoad(options = () => ({})) {
      const senders = webhooks.map((webhook, cell) =>
        startSender({ ...webhook, port: weir.port, lanes: 8, perSecondMax: 100, ...options(cell) }),
      );
      onTestFinished(async () => {
        await Promise.all(senders.map((sender) => sender.stop()));
      });
      await Promise.all(senders.map((sender) => sender.acceptMore(100)));
      return senders;
    },
    cellsAway,
    async expectNothingLost(senders) {
      await until(async () => (await cellsAway()).length === 0);
      await Promise.all(senders.map((sender) => sender.acceptMore(100)));
      await Promise.all(senders.map((sender) => sender.stop()));
      const databases = [weir.database, ...servers.map(({ database }) => database)];
      for (const [place, sender] of senders.entries()) {
        expect(await missing(databases[place]!, sender.accepted)).toEqual([]);
        expect(new Set([...sender.accepted.keys()].map(uuidv7Cell))).toEqual(new Set([place]));
      }
    },
  };
}

async function startServer(dataDir: string): Promise<Server> {
  const postgres = await joinEmbeddedPostgres({ dataDir, maxConnections: 100, log: () => {} });
  const pool = { connectionsMax: 4, applicationName: 'weir-test', onError: () => {} };
  return { dataDir, postgres, database: openDatabase(postgres.conninfo, pool) };
}
