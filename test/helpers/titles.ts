/** A literal behind `test(`, `describe(` or their modifiers, or behind a table: `test.each(rows)(`. */
const titles =
  /(?:\b(?:describe|test)(?:\.\w+)*|\))\(\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)\s*,/g;

/** Titles of the tests and describe blocks in the text of a file, as written there, with quotes, and the numbers of their lines. */
export function titlesIn(text: string): { title: string; line: number }[] {
  return [...text.matchAll(titles)].map((match) => ({
    title: match[1]!,
    line: text.slice(0, match.index).split('\n').length,
  }));
}
