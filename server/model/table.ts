/** The table of a resource: each field once. Schemas of inputs and answers, arguments of tools and form fields are derived from it. */
import { z } from 'zod';

export interface Field {
  /** Schema of the member as a user gives it, with a sentence for people. Absent: read only. */
  input?: z.ZodType;
  /** Value when the member is absent at creation. Absent: the member is required, unless its schema makes it optional. */
  initial?: unknown;
  /** Set at creation only. */
  onlyNew?: true;
  /** Schema of the member of answers. Absent: never shown. */
  output?: z.ZodType;
  /** Value in the example of the API documentation. Absent: null. */
  example?: unknown;
  /** Sentence for a model, which may set the member over MCP. Absent: MCP cannot set it. */
  mcp?: string;
  /** Option of `weir … add` and `update`. Absent: commands have no such option, or the command places it. */
  command?: CommandColumn;
  /** How a form shows the field. Absent: the form has no such field, or the view places it. */
  form?: FormColumn;
}

interface CommandColumn {
  /** E.g. `--rate-limit <requests>`. */
  flags: string;
  /** Sentence for the help. What unsets the member and its default are added. */
  text: string;
}

export interface FormColumn {
  label: string;
  /** `{name}` is replaced by a fact that the page supplies. */
  hint?: string;
  /** Page and section of the guide that has more. */
  guide?: string;
  /** Absent: by the kind of the schema. `password`: empty leaves the stored value. `json`: the text is parsed. */
  type?: 'textarea' | 'password' | 'json';
  rows?: number;
  placeholder?: string;
  /** Id of the list of suggestions in the view. */
  suggestions?: string;
  /** The browser refuses a number over the limit. */
  hasMax?: true;
  /** The browser does not offer earlier texts. */
  noHistory?: true;
}

export type Table = Readonly<Record<string, Field>>;

type NamesWith<T extends Table, Column extends keyof Field> = {
  [Name in keyof T]: T[Name] extends Record<Column, unknown> ? Name : never;
}[keyof T];
type Column<T extends Table, Name extends keyof T, C extends keyof Field> =
  T[Name] extends Record<C, infer Value> ? Value & z.ZodType : never;

type CreateShape<T extends Table> = {
  [Name in NamesWith<T, 'input'>]: Name extends NamesWith<T, 'initial'>
    ? z.ZodDefault<Column<T, Name, 'input'>>
    : Column<T, Name, 'input'>;
};
type UpdateShape<T extends Table> = {
  [Name in Exclude<NamesWith<T, 'input'>, NamesWith<T, 'onlyNew'>>]: z.ZodOptional<Column<T, Name, 'input'>>;
};
type OutputShape<T extends Table> = { [Name in NamesWith<T, 'output'>]: Column<T, Name, 'output'> };
type Example<T extends Table> = {
  [Name in NamesWith<T, 'output'>]: T[Name] extends { example: infer Value } ? Value : null;
};

/** Members of the input that creates the resource. */
export function createShape<T extends Table>(table: T): CreateShape<T> {
  return derive(table, ({ input, initial }) => (initial === undefined ? input : input?.default(initial)));
}

/** Members of a change (RFC 7396): all are optional, absent ones are unchanged. */
export function updateShape<T extends Table>(table: T): UpdateShape<T> {
  return derive(table, ({ input, onlyNew }) => (onlyNew ? undefined : input?.optional()));
}

/** Members of answers. */
export function outputShape<T extends Table>(table: T): OutputShape<T> {
  return derive(table, ({ output }) => output);
}

/** An answer with the examples of the table. */
export function exampleOf<T extends Table>(table: T): Example<T> {
  return derive(table, ({ output, example }) => (output === undefined ? undefined : (example ?? null)));
}

/**
 * Arguments that a tool takes for the members that MCP may set, all but the required ones optional. They have only the type and the
 * limits of the API: the operation checks the rest and names the member that is wrong.
 */
export function mcpShape<T extends Table>(table: T): { [Name in NamesWith<T, 'mcp'>]: z.ZodType } {
  return derive(table, ({ input, initial, mcp }) => {
    if (input === undefined || mcp === undefined) return undefined;
    const argument = argumentOf(bare(input));
    return (initial === undefined && !input.safeParse(undefined).success ? argument : argument.optional()).describe(
      mcp,
    );
  });
}

/** Kind of value that an input takes, for forms and options of commands. */
type Kind = 'text' | 'number' | 'boolean' | 'list' | 'json';

/** The kind of the value that an input takes, without `null` and optionality. */
export function kindOf(input: z.ZodType): Kind {
  const schema = bare(input);
  if (schema instanceof z.ZodString || schema instanceof z.ZodEnum) return 'text';
  if (schema instanceof z.ZodNumber) return 'number';
  if (schema instanceof z.ZodLiteral && typeof [...schema.values][0] === 'number') return 'number';
  if (schema instanceof z.ZodBoolean) return 'boolean';
  return schema instanceof z.ZodArray ? 'list' : 'json';
}

/** The schema without `null` and without optionality. */
export function bare(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodNullable || schema instanceof z.ZodOptional || schema instanceof z.ZodDefault
    ? bare(schema.unwrap() as z.ZodType)
    : schema;
}

function argumentOf(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodEnum) return z.string();
  if (schema instanceof z.ZodArray) return schema;
  if (!(schema instanceof z.ZodString)) return schema;
  const { minLength, maxLength } = schema;
  const atLeast = minLength ? z.string().min(minLength) : z.string();
  return maxLength === null ? atLeast : atLeast.max(maxLength);
}

/** The types of the callers say which members the result has. */
function derive<Shape>(table: Table, of: (field: Field) => unknown): Shape {
  const pairs = Object.entries(table).map(([name, field]) => [name, of(field)] as const);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined)) as Shape;
}
