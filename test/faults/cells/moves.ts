/**
 * `weir cell move` is killed at each of its steps, and so is Weir, or the server of a cell: the move is finished, or nothing has begun. A
 * request that is repeated all the time is one event, and new events go to one cell.
 */
import { expect, onTestFinished, test } from 'vitest';
import { uuidv7Cell } from '../../../server/store/ids.ts';
import { hold, type Release, rowsOf } from '../../helpers/hold.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { until } from '../../helpers/wait.ts';
import { kill } from '../../helpers/weir.ts';
import type { CellInstallation, Server } from './installation.ts';
import { type Repeater, startRepeater } from './repeater.ts';

const KEY_HEADER = 'x-delivery';

/** A move in progress. */
interface Moving {
  id: string;
  /** Connection strings. */
  home: string;
  from: string;
  to: string;
}

/** How the command is made to wait at a step, and whether the webhook has begun to move then. */
const steps: readonly { step: string; begun: boolean; stopAt: (moving: Moving) => Promise<Waiting> }[] = [
  {
    step: 'while it copies the keys',
    begun: false,
    stopAt: async ({ to }) => ({ release: await hold(to, lockKeys), reached: () => waits(to) }),
  },
  {
    step: 'before the webhook begins to move',
    begun: false,
    stopAt: async ({ home, id }) => ({ release: await hold(home, lockRow(id)), reached: () => waits(home) }),
  },
  {
    step: 'before the cells know of it',
    begun: true,
    stopAt: async (moving) => ({
      release: await hold(moving.from, lockWebhooks),
      reached: async () => (await isBegun(moving)) && waits(moving.from),
    }),
  },
  {
    step: 'while older statements end',
    begun: true,
    stopAt: async (moving) => ({ release: await holdOlder(moving), reached: () => isCopied(moving) }),
  },
  {
    step: 'while it copies the last keys',
    begun: true,
    stopAt: (moving) => afterOlder(moving, moving.to, lockKeys),
  },
  {
    step: 'before its end is stored',
    begun: true,
    stopAt: (moving) => afterOlder(moving, moving.home, lockRow(moving.id)),
  },
];

interface Waiting {
  release: Release;
  reached: () => Promise<boolean>;
}

/** Makes the command wait for a lock that is taken while it waits for older statements. @param conninfo where it then waits */
async function afterOlder(moving: Moving, conninfo: string, lock: string): Promise<Waiting> {
  const older = await holdOlder(moving);
  let release = older;
  const reached = async () => {
    if (release === older) {
      if (!(await isCopied(moving))) return false;
      release = await hold(conninfo, lock);
      await older();
    }
    return waits(conninfo);
  };
  return { release: () => release(), reached };
}

export function moveTests(installation: CellInstallation): void {
  test.each(steps)('a move of a webhook, killed $step', async ({ begun, stopAt }) => {
    const { servers } = installation;
    const webhook = await installation.addWebhook(1, '--dedupe-header', KEY_HEADER);
    const repeater = startRepeater({ ...webhook, port: installation.weir.port, keyHeader: KEY_HEADER });
    onTestFinished(() => repeater.stop());
    await repeater.acceptMore(20);
    const fates: string[] = [];
    const moveAndKill = async (victim: string, fall: (command: { pid: number }) => Promise<() => Promise<void>>) => {
      const { cell: from } = await placeOf(installation, webhook.id);
      const to = from === 1 ? 2 : 1;
      const conninfo = (cell: number) => servers[cell - 1]!.postgres.conninfo;
      const { weir } = installation;
      const moving = { id: webhook.id, home: weir.conninfo, from: conninfo(from), to: conninfo(to) };
      const { release, reached } = await stopAt(moving);
      onTestFinished(release);
      let command!: ReturnType<CellInstallation['spawn']>;
      let hasEnded = true;
      await until(async () => {
        // Again after a refusal: a process takes a cell whose server has just returned as away until its next check.
        if (hasEnded) {
          if (command !== undefined) expect(command.stderr()).toMatch(/cell_unfit|database_unavailable/);
          command = installation.spawn('cell', 'move', webhook.id, '--to', String(to));
          hasEnded = false;
          void command.ended.then(() => {
            hasEnded = true;
          });
        }
        return reached();
      });
      const restore = await fall(command);
      await release();
      await restore();
      const code = await command.ended;
      await until(async () => (await placeOf(installation, webhook.id)).moving_from === null);
      const { cell } = await placeOf(installation, webhook.id);
      if (code === 0) expect(cell).toBe(to);
      else if (code !== 'SIGKILL') expect(command.stderr()).toMatch(/another cell|this cell|database|cell \d/i);
      fates.push(`${victim}: command ${code}, ${cell === to ? 'moved' : 'not moved'}`);
      await repeater.acceptMore(20);
      return { isMoved: cell === to };
    };

    // Nobody is left to finish it, until Weir starts again.
    const killed = await moveAndKill('command and Weir', async ({ pid }) => {
      kill(pid, 'SIGKILL');
      await installation.killWeir();
      return () => installation.startAgain();
    });
    expect(killed).toEqual({ isMoved: begun });
    const { cell } = await placeOf(installation, webhook.id);
    for (const place of [cell - 1, 2 - cell])
      await moveAndKill(place === cell - 1 ? 'cell it leaves' : 'cell it goes to', async () => {
        await killServer(servers[place]!);
        return () => installation.restartServer(place);
      });
    console.log(`${fates.join('; ')}; ${await expectExact(installation, webhook.id, repeater)}`);
  });
}

/** Each key is one event, which is stored once, in the cell that its id names; new events go where the webhook is. */
async function expectExact(installation: CellInstallation, id: string, repeater: Repeater): Promise<string> {
  await until(async () => (await installation.cellsAway()).length === 0);
  await repeater.stop();
  const ids = await repeater.repeatAll();
  const { cell } = await placeOf(installation, id);
  expect(uuidv7Cell(await repeater.sendNew())).toBe(cell);
  const databases = [installation.weir.database, ...installation.servers.map(({ database }) => database)];
  const stored: string[] = [];
  for (const [place, database] of databases.entries()) {
    const rows = await database.query<{ id: string }>({
      text: 'select id from events where webhook_id = $1',
      values: [id],
    });
    expect(rows.filter((row) => uuidv7Cell(row.id) !== place)).toEqual([]);
    stored.push(...rows.map((row) => row.id));
  }
  expect(new Set(stored).size).toBe(stored.length);
  expect(ids.filter((each) => !stored.includes(each))).toEqual([]);
  expect(stored.length).toBe(ids.length + 1);
  return repeater.summary();
}

async function placeOf({ weir }: CellInstallation, id: string): Promise<{ cell: number; moving_from: number | null }> {
  const text = 'select cell, moving_from from webhooks where id = $1';
  const [row] = await weir.sql<{ cell: number; moving_from: number | null }>(text, id);
  return row!;
}

async function killServer({ dataDir }: Server): Promise<void> {
  kill((await postgresPids(dataDir))!.postmaster, 'SIGKILL');
}

const lockKeys = 'lock table dedupe_keys in access exclusive mode';
const lockWebhooks = 'lock table webhooks in access exclusive mode';
const lockRow = (id: string) => `select from webhooks where id = '${id}' for update`;
/** A statement of a serving process that began before the move. */
const holdOlder = ({ from }: Moving) => hold(from, 'select 1', 'weir');

/** Whether a statement of Weir waits for a lock there. */
async function waits(conninfo: string): Promise<boolean> {
  const text = `select from pg_stat_activity where application_name in ('weir', 'weir-primary') and wait_event_type = 'Lock'`;
  return (await rowsOf(conninfo, text)).length > 0;
}

const isMoving = async (conninfo: string, id: string) =>
  (await rowsOf(conninfo, `select from webhooks where id = '${id}' and moving_from is not null`)).length > 0;
const isBegun = ({ id, home }: Moving) => isMoving(home, id);
/** Whether the cell that the webhook leaves knows that it moves. */
const isCopied = ({ id, from }: Moving) => isMoving(from, id);
