/** Fragments of SQL statements. Column names and expressions are trusted; values are passed as parameters. */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';

/** A timestamptz expression as text: ISO 8601 in UTC, with milliseconds. */
export function isoText(expression: string): string {
  return `to_char(${expression} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

/** A timestamptz column as ISO text under its own name, e.g. `w.created_at` as `created_at`. */
export function isoColumn(column: string): string {
  return `${isoText(column)} as ${column.slice(column.indexOf('.') + 1)}`;
}

/**
 * The select list of a resource: the members of its schema, which are columns of the table `alias`. Times become ISO text.
 * @param computed SQL expressions of the members that are not columns, or not in the same form
 */
export function selectList<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  alias: string,
  computed: { [Name in keyof Shape]?: string } = {},
): string {
  const items = Object.entries(schema.shape).map(([name, member]) => {
    const expression = computed[name];
    if (expression !== undefined) return `${expression} as ${name}`;
    return isTime(member) ? isoColumn(`${alias}.${name}`) : `${alias}.${name}`;
  });
  return items.join(', ');
}

function isTime(member: z.core.$ZodType): boolean {
  return (member instanceof z.ZodNullable ? member.unwrap() : member) instanceof z.ZodISODateTime;
}

/**
 * The rows of `table` whose name has a text, case-insensitive; for `from`. `offset 0` keeps the search by itself.
 * @param text SQL expression
 */
export function rowsNamed(table: string, text: string): string {
  return `(select * from ${table} where strpos(lower(name) collate "C", lower(${text}::text)) > 0 offset 0)`;
}

/** A Postgres array literal. The items must need no quotes: ids, numbers, ISO times, base64. */
export function arrayOf(items: Iterable<string | number | null>): string {
  return `{${Array.from(items, (item) => (item === '' ? '""' : (item ?? 'null'))).join(',')}}`;
}

/** The given members of rows, each as an array literal for `unnest`. */
export function columnsOf<Row extends object>(rows: readonly Row[], ...names: (keyof Row)[]): string[] {
  return names.map((name) => arrayOf(rows.map((row) => row[name] as string | number | null)));
}

/** Values of a statement that is assembled from parts. Each value gets the next placeholder; no value enters the text. */
export class Placeholders {
  readonly values: unknown[] = [];

  /** Adds the value; returns its placeholder. */
  of(value: unknown, type: string): string {
    return `$${this.values.push(value)}::${type}`;
  }
}

/** Bytes as `asText` returned them: a letter for the form, then a character a byte (`l`) or base64 (`b`). */
export type ByteText = string;

/**
 * SQL: the bytes of a column as ByteText. Connections send text, and by default Postgres sends bytes in hex, two characters a byte. Latin-1
 * takes half of the CPU (bench/NOTES.md); a fifth of that is the search for NUL, which text cannot contain. Base64 is used if the bytes
 * contain NUL, or if the encoding of the database may lack characters of Latin-1.
 */
export const asText = (bytes: string) => `
  case when position('\\x00'::bytea in ${bytes}) = 0 and getdatabaseencoding() = 'UTF8'
    then 'l' || convert_from(${bytes}, 'LATIN1') else 'b' || encode(${bytes}, 'base64') end`;

/** The bytes of a ByteText. */
export function bytesOf(text: ByteText): Buffer {
  return Buffer.from(text.slice(1), text.startsWith('l') ? 'latin1' : 'base64');
}

/** The bytes as text; null: they are not UTF-8, or contain NUL, which JSON allows but few programs handle. */
export function utf8Of(text: ByteText): string | null {
  if (!text.startsWith('l')) {
    const bytes = bytesOf(text);
    return isUtf8(bytes) && !bytes.includes(0) ? bytes.toString('utf8') : null;
  }
  const latin1 = text.slice(1);
  // ASCII needs no copy: each character takes one byte.
  if (Buffer.byteLength(latin1) === latin1.length) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : null;
}
