/** `weir cell add|list|update|move|drain|remove`. */
import { Argument } from 'commander';
import { CommandError, type CommandIo, printLine, readGiven, readLine } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import type { CellView } from '../../../model/cells.ts';
import { counted } from '../../../model/words.ts';
import { bytes } from '../../../pages/show.ts';
import { type Call, notFound } from '../call.ts';
import { type Row, row } from '../row.ts';

interface DatabaseOptions {
  databaseFile?: string;
  databaseStdin?: boolean;
}

const databaseOptions = [
  ['--database-file <file>', 'file with the connection string of the Postgres server'],
  ['--database-stdin', 'read the connection string from standard input'],
] as const;

const cell = new Argument('<cell>', 'its number or its name');

export const rows: readonly Row[] = [
  row<DatabaseOptions & { citus?: true; name?: string }>()({
    name: 'add',
    description: 'store the events of further webhooks on another Postgres server, or another node of Citus',
    options: [
      ...databaseOptions,
      ['--citus', 'a schema of the database of the settings, which is on a Citus coordinator'],
      ['--name <name>', 'name of the cell; default: cell- and a number'],
    ],
    check: (_id, options) => {
      checkDatabase(options);
      const isServer = options.databaseFile !== undefined || options.databaseStdin === true;
      if (isServer === (options.citus === true))
        throw new CommandError('give the server: --database-file, --database-stdin or --citus', 2);
    },
    run: async (call, { options, io }) => {
      const { citus } = options;
      const database = await givenDatabase(io, options);
      const names = (await call('listCells')).items.map(({ name }) => name);
      // Home has another name, so one of these is free.
      const free = names.map((_, index) => `cell-${index + 1}`).find((name) => !names.includes(name));
      return call('addCell', { input: { name: options.name ?? free, database, citus } });
    },
    text: ({ number, name, address }) =>
      `Cell ${number} (${name}) is ready at ${address}. New webhooks go to the server with the fewest bytes.\n` +
      `An older one goes there with: ${weirCommand()} cell move WEBHOOK --to ${number}\n`,
  }),

  row()({
    name: 'list',
    database: 'always',
    description: 'show the servers that store events, home first',
    run: (call) => call('listCells'),
    list: {
      columns: ['CELL', 'NAME', 'KIND', 'STATE', 'ADDRESS', 'WEBHOOKS', 'EVENTS', 'BYTES', 'STANDBY BEHIND', 'WAITING'],
      cells: [
        'number',
        'name',
        'kind',
        stateOf,
        'address',
        'webhooks',
        eventsOf,
        (one) => bytesText(one.bytes),
        (one) => bytesText(one.replication_lag_bytes),
        'waiting',
      ],
      whenEmpty: '',
    },
  }),

  row<DatabaseOptions & { name?: string; acceptRestored?: true }>()({
    name: 'update',
    database: 'always',
    description: 'change the name or the connection string of a cell',
    argument: cell,
    options: [
      ...databaseOptions,
      ['--name <name>', 'new name'],
      ['--accept-restored', 'use it again after its server was restored from a backup'],
    ],
    check: (_id, options) => checkDatabase(options),
    run: async (call, { argument, options, io }) => {
      const database = await givenDatabase(io, options);
      const { name, acceptRestored: accept_restored } = options;
      if (database === undefined && name === undefined && accept_restored === undefined)
        throw new CommandError('nothing to change; see the options with --help', 2);
      return call('updateCell', { id: await numberOf(call, argument), input: { name, database, accept_restored } });
    },
    text: ({ number, name, address }) => `Cell ${number} (${name}): updated; ${address}.\n`,
  }),

  row<{ to: string }>()({
    name: 'move',
    description: 'store new events of a webhook in another cell; older ones stay until retention removes them',
    target: 'webhook',
    required: [['--to <cell>', 'number or name of the cell; 0 or home: the first database']],
    run: async (call, { id, options: { to } }) => call('moveWebhook', { id, input: { cell: await cellOf(call, to) } }),
    text: ({ cell }, { key }) => `${key}: new events go to cell ${cell}.\n`,
  }),

  row()({
    name: 'drain',
    description: 'move every webhook of a cell to others; retention removes what it has',
    argument: cell,
    asks: 'drainCell',
    run: async (call, { argument, io }) => {
      const id = await numberOf(call, argument);
      for (let total = 0; ; ) {
        const drained = await call('drainCell', { id });
        total += drained.moved;
        if (!drained.more) return { ...drained, moved: total };
        printLine(io, `weir: ${counted(total, 'webhook')} moved`);
      }
    },
    text: ({ cell: { number, empty_at }, moved }) =>
      `Cell ${number}: ${counted(moved, 'webhook')} moved. ${empty_at === null ? 'It is empty' : `Its last event is removed at ${empty_at}`}; ` +
      `then: ${weirCommand()} cell remove ${number}\n`,
  }),

  row()({
    name: 'remove',
    description: 'forget a cell that is drained and empty',
    argument: cell,
    asks: 'removeCell',
    run: async (call, { argument }) => {
      const id = await numberOf(call, argument);
      await call('removeCell', { id });
      return { id };
    },
    text: ({ id }) => `Cell ${id}: removed. A database of its own can be deleted.\n`,
  }),
];

/** Why the cell is away, when a draining one will be empty, or its state. */
function stateOf({ away, state, empty_at }: CellView): string {
  if (away !== null) return `away: ${away}`;
  if (state !== 'draining') return state;
  return empty_at === null ? 'drained' : `draining until ${empty_at}`;
}

function bytesText(count: number | null): string {
  return count === null ? '' : bytes(count);
}

function eventsOf({ events, oldest_at }: CellView): string {
  if (events === null) return '';
  return events === 0 && oldest_at !== null ? 'few' : `~${events}`;
}

/** The number of a cell that was given by number or name. */
export async function cellOf(call: Call, given: string): Promise<number> {
  if (/^\d{1,4}$/.test(given)) return Number(given);
  const found = (await call('listCells')).items.find(({ name }) => name === given);
  if (found === undefined) throw notFound('cell_unknown', `no cell has the name ${given}`);
  return found.number;
}

async function numberOf(call: Call, given: string): Promise<string> {
  return String(await cellOf(call, given));
}

function checkDatabase({ databaseFile, databaseStdin }: DatabaseOptions): void {
  if (databaseFile !== undefined && databaseStdin)
    throw new CommandError('--database-file and --database-stdin exclude each other', 2);
}

async function givenDatabase(io: CommandIo, { databaseStdin, databaseFile }: DatabaseOptions) {
  if (databaseStdin) return readLine(io);
  return databaseFile === undefined ? undefined : (await readGiven(io, databaseFile)).trim();
}
