/** /docs: the guides of this release, readable without signing in. The build renders them (operate/setup/guides.mjs). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { problem } from '../base/http/problem.ts';
import type { Person } from '../manage/auth/person.ts';
import { type Page, view } from './page.ts';

export interface Guide {
  /** Last part of its path. */
  name: string;
  title: string;
  html: string;
  sections: Section[];
}

interface Section {
  /** 1 for the title. */
  level: number;
  anchor: string;
  heading: string;
  /** Plain text, without that of other sections. */
  text: string;
}

/** Limits of a search, in characters and in words. */
export const SEARCH_CHARACTERS_MAX = 100;
const WORDS_MAX = 8;
/** Sections that a search returns. */
export const FOUND_MAX = 20;
/** Characters of an excerpt before and after the first word. */
const EXCERPT_BEFORE = 60;
const EXCERPT_AFTER = 160;

/** The pages of the guides. @param build folder of the build, which contains the rendered guides */
export function docsPages(build: string): { docs: Page<Person | null>; guide: Page<Person | null> } {
  let loaded: Guide[] | undefined;
  const load = () => {
    loaded ??= JSON.parse(readFileSync(join(build, 'views/docs/guides.json'), 'utf8')) as Guide[];
    return loaded;
  };

  const docs: Page<Person | null> = async ({ query }) => {
    const guides = load();
    const sought = (query.get('q') ?? '').slice(0, SEARCH_CHARACTERS_MAX).trim();
    if (sought === '') return view('docs/index', 'Docs', { guides, sought, found: [] }, { stored: 'docs' });
    return view('docs/index', 'Docs', { guides, sought, found: searchGuides(guides, sought) });
  };

  const guide: Page<Person | null> = async ({ id }) => {
    const guides = load();
    const one = guides.find(({ name }) => name === id);
    if (one === undefined) return problem('not_found', 'No guide has this name; /docs lists them.');
    return view('docs/guide', one.title, { guides, guide: one }, { stored: `docs/${one.name}` });
  };

  return { docs, guide };
}

/** Finds sections that contain every word, those with most words in the heading first. Uses at most WORDS_MAX words. */
export function searchGuides(guides: readonly Guide[], sought: string) {
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean).slice(0, WORDS_MAX);
  if (words.length === 0) return [];
  const hits = guides.flatMap((guide) =>
    guide.sections.flatMap((section) => {
      const heading = section.heading.toLowerCase();
      const text = section.text.toLowerCase();
      if (!words.every((word) => heading.includes(word) || text.includes(word))) return [];
      return [{ guide, section, inHeading: words.filter((word) => heading.includes(word)).length }];
    }),
  );
  return hits
    .sort((a, b) => b.inHeading - a.inHeading)
    .slice(0, FOUND_MAX)
    .map(({ guide, section: { anchor, heading, text } }) => ({
      guide: guide.title,
      address: `/docs/${guide.name}#${anchor}`,
      heading,
      excerpt: excerptOf(text, words),
    }));
}

/** Text around the first word, as alternating unmarked and marked parts. */
function excerptOf(text: string, words: readonly string[]): string[] {
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})`, 'gi');
  // A word may be in the heading only.
  const at = Math.max(0, text.search(pattern));
  const start = Math.max(0, at - EXCERPT_BEFORE);
  const end = at + EXCERPT_AFTER;
  const shown = `${start > 0 ? '…' : ''}${text.slice(start, end)}${end < text.length ? '…' : ''}`;
  return shown.split(pattern);
}
