/** A management command as a row of a table: its arguments and options, the operation it calls, and what it prints. */
import { type Argument, type Command, InvalidArgumentError, Option } from 'commander';
import {
  CommandError,
  type CommandIo,
  itemsTable,
  jsonLine,
  printBytes,
  printJson,
  printLine,
  printMessage,
  printText,
  type TableCell,
} from '../../base/command/io.ts';
import { visibleDocument, visibleLine } from '../../base/telemetry/visible.ts';
import type { OperationName } from '../../manage/api/routes.ts';
import type { CellAway } from '../../model/cells.ts';
import { type ConfirmedOperation, confirmationOf } from '../../model/confirmations.ts';
import { uuid } from '../command/arguments.ts';
import {
  type Call,
  type Connection,
  confirmedCall,
  documentOf,
  type OpenConnection,
  ProblemFailure,
  type UsesDatabase,
} from './call.ts';
import { idOf, keyOf, namesOf, type Resource } from './lists.ts';
import { openRemote, type RemoteOptions, withRemoteOptions } from './remote.ts';

/** Flags, description, and for a value its parser and default. */
export type OptionRow = readonly [
  flags: string,
  description: string,
  parse?: ((text: string, before: never) => unknown) | undefined,
  standard?: unknown,
];

export interface Given<Options> {
  /** Id of the target; '' without one. */
  id: string;
  /** The target as the person named it. */
  key: string;
  /** The argument after the target, if there is one; '' without one. */
  argument: string;
  options: Options;
  io: CommandIo;
  connection: Connection;
}

interface TypedRow<Options, Answer> {
  /** Name of the subcommand; '' for a command without subcommands. */
  name: string;
  description: string;
  /** Another name of the subcommand. */
  alias?: string;
  /** What the command works on, named by its id; a resource also by its name or email. */
  target?: Resource | { argument: string; description: string; optional?: true };
  argument?: Argument;
  options?: readonly (OptionRow | Option)[];
  required?: readonly OptionRow[];
  /** Absent: on this machine it needs a Weir that serves. */
  database?: UsesDatabase;
  /** The operation that a person confirms on a terminal. The command has the option --yes, and prints which remote Weir it changed. */
  asks?: ConfirmedOperation;
  /** Throws CommandError for arguments that do not fit together. Called before the database is opened. */
  check?(id: string, options: Options): void;
  run(call: Call, given: Given<Options>): Promise<Answer>;
  /** Text for people, printed below the table of a list. Bytes are printed unchanged. */
  text?(answer: Answer, given: Given<Options>): string | Uint8Array;
  /** Columns of a list, the cells of an item, and the line that replaces a table without rows. */
  list?: Listing<ItemOf<Answer>, Options>;
  /** The document of `--json`; default: the answer, and the id for an operation without one. */
  json?(answer: Answer): unknown;
  /** Why the answer is a failure, which exits with code 1; null when it is a success. */
  failure?(answer: Answer, given: Given<Options>): string | null;
}

interface Listing<Item, Options> {
  columns: readonly string[];
  /** Their context is a function from the id of a webhook or agent to its name, or to the id itself when it was deleted. */
  cells: readonly TableCell<Item, (id: string) => string>[];
  /** The cells need names of webhooks and agents. */
  names?: true;
  whenEmpty: string | ((options: Options) => string);
}

type ItemOf<Answer> = Answer extends { items: readonly (infer Item)[] } ? Item : never;

/** Any row, without the types of its options and its answer. */
export type Row = Omit<TypedRow<object, unknown>, 'list'> & { list?: Listing<unknown, object> };

/** Builds a row. The type of its options is given, that of its answer inferred. */
export function row<Options = object>() {
  return <Answer>(given: TypedRow<Options, Answer>): Row => given as unknown as Row;
}

/**
 * Builds the row of a command that calls one operation on its target and prints that it is done. The command asks first if the table of
 * confirmations has the operation.
 * @param done such as `enabled`
 */
export function act(
  target: NonNullable<Row['target']>,
  name: string,
  description: string,
  operation: OperationName,
  done: string,
  input?: object,
): Row {
  const isAsked = confirmationOf(operation, input) !== null;
  return row()({
    name,
    description,
    target,
    ...(isAsked && { asks: operation as ConfirmedOperation }),
    run: (call, { id }) => call(operation, input === undefined ? { id } : { id, input }),
    text: (answer, { key }) => `${(answer as { email?: string } | null)?.email ?? key}: ${done}.\n`,
  });
}

async function printAnswer({ text, list }: Row, answer: unknown, given: Given<object>): Promise<void> {
  const more = text?.(answer, given) ?? '';
  if (typeof more !== 'string') printBytes(given.io, more);
  else printText(given.io, `${list === undefined ? '' : await listText(list, answer, given)}${more}`);
}

/** Says which cells an answer over all cells lacks. */
function printCellsAway(io: CommandIo, answer: unknown): void {
  const { cells_away = [] } = (answer ?? {}) as { cells_away?: readonly CellAway[] };
  for (const { number, name } of cells_away)
    printLine(io, `weir: cell ${number} (${name}) cannot be reached: what it has is not in this list`);
}

async function listText(list: Listing<unknown, object>, answer: unknown, given: Given<object>): Promise<string> {
  const { items } = answer as { items: readonly object[] };
  const { columns, cells, whenEmpty } = list;
  if (items.length === 0) return `${typeof whenEmpty === 'string' ? whenEmpty : whenEmpty(given.options)}\n`;
  const names = list.names ? await namesOf(given.connection.call, items) : new Map<string, string>();
  return itemsTable<unknown, (id: string) => string>(columns, cells, items, (id) => names.get(id) ?? id);
}

/** Adds the commands of the table. @param openLocal null in the client package, which works on a remote Weir only */
export function defineRows(
  command: Command,
  io: CommandIo,
  rows: readonly Row[],
  openLocal: OpenConnection | null,
): void {
  // Without an alias, which would leave no room for the descriptions.
  command.configureHelp({ subcommandTerm: (one) => `${one.name()} ${one.usage()}` });
  for (const one of rows) {
    const target = one.name === '' ? command : command.command(one.name).description(one.description);
    if (one.alias !== undefined) target.alias(one.alias);
    addArguments(target, one);
    withRemoteOptions(target.option('--json', 'print one JSON document'));
    if (one.asks !== undefined) target.option('--yes', 'do not ask, also on a terminal');
    const { target: wanted } = one;
    target.action((...parsed: unknown[]) => {
      const options = parsed.at(-2) as RemoteOptions & { json?: boolean; yes?: boolean };
      const key = wanted === undefined ? '' : ((parsed[0] as string | undefined) ?? '');
      return reported(io, options.json === true, async () => {
        one.check?.(key, options);
        const argument = one.argument === undefined ? '' : (parsed[wanted === undefined ? 0 : 1] as string);
        const connection = await openRemote(io, options, openLocal, one.database);
        try {
          await runRow(io, one, connection, [key, argument], options);
        } finally {
          await connection.close();
        }
      });
    });
  }
}

function addArguments(command: Command, { target, argument, options = [], required = [] }: Row): void {
  if (typeof target === 'string') command.argument(`<${target}>`, `id or unique ${keyOf(target)} of the ${target}`);
  else if (target !== undefined)
    command.argument(target.optional ? `[${target.argument}]` : `<${target.argument}>`, target.description, uuid);
  if (argument !== undefined) command.addArgument(argument);
  addOptions(command, options);
  for (const option of required) command.addOption(optionOf(option).makeOptionMandatory());
}

/** Adds options to a command. */
export function addOptions(command: Command, options: readonly (OptionRow | Option)[]): void {
  for (const option of options) command.addOption(option instanceof Option ? option : optionOf(option));
}

function optionOf([flags, description, parse, standard]: OptionRow): Option {
  const option = new Option(flags, description);
  if (parse !== undefined) option.argParser(parse as (text: string) => unknown);
  if (standard !== undefined) option.default(standard);
  return option;
}

async function runRow(
  io: CommandIo,
  one: Row,
  connection: Connection,
  [key, argument]: readonly [string, string],
  options: { json?: boolean; yes?: boolean },
): Promise<void> {
  const { call } = connection;
  const id = typeof one.target === 'string' ? await idOf(call, one.target, key) : key;
  const given = { id, key, argument, options, io, connection };
  const answer = await one.run(confirmedCall(io, call, key || argument, options.yes === true), given);
  printCellsAway(io, answer);
  const shown = { ...given, id: visibleLine(id), key: visibleLine(key) };
  const failure = one.failure?.(visibleDocument(answer), shown) ?? null;
  if (options.json) printJson(io, one.json === undefined ? (answer ?? { id }) : one.json(answer));
  else if (failure === null) await printAnswer(one, visibleDocument(answer), shown);
  if (failure === null && !options.json && one.asks !== undefined && connection.remote !== null)
    printText(io, `On ${connection.remote}\n`);
  // With --json the document says what failed.
  if (failure !== null) throw new CommandError(options.json ? '' : failure);
}

/** Prints failures as problem documents with `--json`. */
async function reported(io: CommandIo, json: boolean, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!json || !(error instanceof CommandError) || error.message === '') throw error;
    printMessage(io, jsonLine(error instanceof ProblemFailure ? error.document : documentOf(error)));
    throw new CommandError('', error.exitCode);
  }
}

/** Parses an id or a name of a repeatable option. @param before values that were given before it */
export function repeated(text: string, before: string[] = []): string[] {
  if (text === '') throw new InvalidArgumentError('Give an id or a name.');
  return [...before, text];
}
