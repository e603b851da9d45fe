import { visibleLine } from '../telemetry/visible.ts';

/**
 * Formats rows as columns for people: two spaces between columns, header first. Control characters, including line feeds,
 * are made visible.
 */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows].map((row) => row.map((cell) => visibleLine(cell)));
  const widths = header.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
