/** Marked regions of a Markdown page: the content between `<!-- NAME:begin -->` and `<!-- NAME:end -->` is generated. */

/** Puts `content` between the markers of `name`. Throws unless the page has each marker exactly once, in order. */
export function replaceRegion(page: string, name: string, content: string): string {
  const begin = `<!-- ${name}:begin -->`;
  const end = `<!-- ${name}:end -->`;
  const [before, inside, ...more] = page.split(begin);
  const [, after, ...moreEnds] = inside?.split(end) ?? [];
  if (before === undefined || after === undefined || more.length > 0 || moreEnds.length > 0)
    throw new Error(`the page must hold ${begin} and then ${end}, once each`);
  return `${before}${begin}\n${content.trim()}\n${end}${after}`;
}

/** A Markdown table; a `|` inside a cell is escaped. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
  return line(header) + line(header.map(() => '---')) + rows.map(line).join('');
}
