/** The README and the guides: their headings with the anchors of GitHub, and their generated regions. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { anchorOf } from '../../server/operate/setup/guides.mjs';

export const root = resolve(import.meta.dirname, '../..');
const WIDTH = 155;

const rootDocuments = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'THIRD-PARTY-NOTICES.md'];
/** The documents by path. */
export const documents: Readonly<Record<string, string>> = Object.fromEntries(
  [...rootDocuments, ...readdirSync(join(root, 'views/docs')).map((name) => `views/docs/${name}`)]
    .filter((path) => path.endsWith('.md'))
    .sort()
    .map((path) => [path, readFileSync(join(root, path), 'utf8')]),
);

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

/** A table of contents: one item for each section, with its subsections behind it, in lines of at most WIDTH characters where links allow it. */
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

/** The names of the regions of a page. A region without its end, or with another one inside, has no name here. */
export function regionsOf(page: string): string[] {
  return [...page.matchAll(/<!-- ([\w-]+):begin -->(?:(?!<!-- [\w-]+:begin)[\s\S])*?<!-- \1:end -->/g)].map(
    ([, name]) => name!,
  );
}

/** The page with `content` in its region `name`, if it has one. */
export function fillRegion(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const at = page.indexOf(begin);
  return at === -1 ? page : `${page.slice(0, at)}${begin}\n${content.trim()}\n${page.slice(page.indexOf(end, at))}`;
}
