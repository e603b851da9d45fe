/** Options of commands that set members of a resource, from its table. */
import { Option } from 'commander';
import type { z } from 'zod';
import { CommandError, type CommandIo, readGiven, readLine } from '../../../base/command/io.ts';
import { bare, type Field, kindOf, type Table } from '../../../model/table.ts';
import { wholeNumber } from '../../command/arguments.ts';

type CommandField = Required<Pick<Field, 'input' | 'command'>> & Field;

/** The fields that commands set, with the option of each. */
function optionsOf(table: Table): [name: string, field: CommandField, option: Option][] {
  return Object.entries(table)
    .filter((entry): entry is [string, CommandField] => entry[1].command !== undefined)
    .map(([name, field]) => [name, field, new Option(field.command.flags, field.command.text)]);
}

/** The options of `add` or `update` for the fields of a table. */
export function fieldOptions(table: Table, change: 'add' | 'update'): Option[] {
  return optionsOf(table)
    .filter(([, { onlyNew }]) => change === 'add' || !onlyNew)
    .map(([, { input, initial }, option]) => {
      const kind = kindOf(input);
      if (kind === 'number') option.argParser(numberParser(input));
      if (kind === 'boolean') option.choices(['true', 'false']);
      if (change === 'update' && takesNull(input) && kind !== 'json')
        option.description += kind === 'number' ? '; none unsets it' : "; '' unsets it";
      if (change === 'add' && (typeof initial === 'boolean' || (typeof initial === 'string' && initial !== '')))
        option.description += `; default: ${initial}`;
      return change === 'add' && initial === undefined && !input.safeParse(undefined).success
        ? option.makeOptionMandatory()
        : option;
    });
}

function takesNull(input: z.ZodType): boolean {
  return input.safeParse(null).success;
}

/** Parses a number as the API takes it, or `none`, since commander does not pass null to the action. */
function numberParser(input: z.ZodType): (text: string) => number | 'none' {
  const schema = bare(input) as z.ZodNumber;
  const parse = wholeNumber(undefined, schema.minValue === 0 ? 0 : 1);
  return (text) => (takesNull(input) && text === 'none' ? text : parse(text));
}

/** The given members, as the API takes them. Throws CommandError when a file cannot be read. */
export async function membersOf(io: CommandIo, table: Table, options: object): Promise<Record<string, unknown>> {
  const members: Record<string, unknown> = {};
  for (const [name, { input }, option] of optionsOf(table)) {
    const given = (options as Record<string, unknown>)[option.attributeName()];
    const kind = kindOf(input);
    if (given === undefined) continue;
    if (kind === 'json') members[name] = await readJson(String(given), io);
    else if (kind === 'boolean') members[name] = given === 'true';
    else members[name] = takesNull(input) && (given === 'none' || given === '') ? null : given;
  }
  return members;
}

/** The given members of a change. Throws CommandError when no member is given. */
export async function changesOf(io: CommandIo, table: Table, options: object): Promise<Record<string, unknown>> {
  const members = await membersOf(io, table, options);
  if (Object.keys(members).length === 0) throw new CommandError('nothing to change; see the options with --help', 2);
  return members;
}

/** Reads a JSON file. The input schema of the operation checks its content. */
async function readJson(file: string, io: CommandIo): Promise<unknown> {
  const text = await readGiven(io, file);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CommandError(`${file} cannot be read as JSON: ${(error as Error).message}.`, 2);
  }
}

/** Options that give the secret of a sender. */
export interface SecretOptions {
  secret?: string;
  secretStdin?: boolean;
}

/** Throws CommandError for two sources of a secret. */
export function checkSecret({ secret, secretStdin }: SecretOptions): void {
  if (secret !== undefined && secretStdin) throw new CommandError('--secret and --secret-stdin exclude each other', 2);
}

/** The secret of --secret or --secret-stdin; null: neither was given. */
export async function givenSecret(io: CommandIo, { secret, secretStdin }: SecretOptions): Promise<string | null> {
  return secretStdin ? readLine(io) : (secret ?? null);
}
