/** The headings of a Markdown page, their anchors on GitHub, and a table of contents of two levels. */
import { anchorOf } from '../setup/guides.mjs';

interface Heading {
  /** 1 for the title. */
  level: number;
  text: string;
  anchor: string;
}

/** The headings of a page outside of code blocks. */
export function headingsOf(page: string): Heading[] {
  const seen = new Map<string, number>();
  return [...withoutCode(page).matchAll(/^(#{1,6}) (.+)$/gm)].map(([, marks, text]) => ({
    level: marks!.length,
    text: text!,
    anchor: anchorOf(text!, seen),
  }));
}

/** The page without its fenced blocks of code. */
export function withoutCode(page: string): string {
  return page.replace(/^```[\s\S]*?^```$/gm, '');
}

const WIDTH = 155;

/** One item for each section, with its subsections behind it, in lines of at most WIDTH characters where links allow it. */
export function contentsOf(page: string): string {
  const lines: string[] = [];
  for (const { level, text, anchor } of headingsOf(page)) {
    const link = `[${text}](#${anchor})`;
    if (level === 2) lines.push(`- **${link}**`);
    if (level !== 3) continue;
    const last = lines.length - 1;
    const isFirst = lines[last]!.endsWith('**');
    const longer = `${lines[last]}${isFirst ? ': ' : ', '}${link}`;
    if (longer.length <= WIDTH) lines[last] = longer;
    else {
      lines[last] += isFirst ? ':' : ',';
      lines.push(`  ${link}`);
    }
  }
  return lines.join('\n');
}
