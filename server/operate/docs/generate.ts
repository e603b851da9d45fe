/** Regenerates the documents of a checkout from the tables in the code. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { settingGroups } from '../../base/settings/table.ts';
import { contentsOf } from './contents.ts';
import {
  hasRegion,
  replaceRegion,
  type SettingRow,
  sentence,
  settingRows,
  shownDefault,
  shownMeaning,
  tables,
} from './tables.ts';

/** The folder of the guides, in the repository and below dist/. */
const GUIDES = 'views/docs';

/** Paths of the README, of the files for contributors and of all guides, below the root of the project in `directory`. */
export function documentPaths(directory: string): string[] {
  const guides = readdirSync(join(directory, GUIDES)).filter((name) => name.endsWith('.md'));
  return ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', ...guides.sort().map((name) => `${GUIDES}/${name}`)];
}

/**
 * Returns the documents, by path, with their regions regenerated. Throws unless each table is in exactly one of them.
 * @param program all commands
 */
export function renderDocuments(pages: Readonly<Record<string, string>>, program: Command): Record<string, string> {
  for (const name of Object.keys(tables)) {
    const holders = Object.keys(pages).filter((path) => hasRegion(pages[path]!, name));
    if (holders.length !== 1) throw new Error(`one document must have the table ${name}, found: ${holders.join(', ')}`);
  }
  return Object.fromEntries(Object.entries(pages).map(([path, page]) => [path, renderDocument(page, program)]));
}

function renderDocument(page: string, program: Command): string {
  const filled = Object.entries(tables).reduce(
    (text, [name, render]) => (hasRegion(text, name) ? replaceRegion(text, name, render(program)) : text),
    page,
  );
  return hasRegion(filled, 'contents') ? replaceRegion(filled, 'contents', contentsOf(filled)) : filled;
}

/** Rewrites README.md, the guides and .env.example in `directory`; returns the paths of the files that changed. */
export function writeDocs(directory: string, program: Command): string[] {
  const pages = Object.fromEntries(
    documentPaths(directory).map((path) => [path, readFileSync(join(directory, path), 'utf8')]),
  );
  const wanted = { ...renderDocuments(pages, program), '.env.example': envExample() };
  const outdated = Object.entries(wanted).filter(([path, text]) => readOrEmpty(join(directory, path)) !== text);
  for (const [path, text] of outdated) writeFileSync(join(directory, path), text);
  return outdated.map(([path]) => path);
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

const head = `# Every setting of Weir at its default: copy this file to .env and uncomment what you change.
# The environment wins over .env, and an empty value counts as unset. A .env with secrets in it: chmod 600 .env
# Written by \`npm run docs\` from server/base/settings/rows; don't edit it here.
`;

/** `.env.example`: every setting with its meaning, commented out at its default. */
export function envExample(): string {
  const groups = settingGroups.map(
    ({ title, settings }) => `\n# ${title}\n${settingRows(settings).map(entry).join('')}`,
  );
  return head + groups.join('');
}

function entry(row: SettingRow): string {
  const computed = row.fallback === null && row.fallbackShown !== undefined ? `\n# Default: ${shownDefault(row)}.` : '';
  return `\n# ${sentence(shownMeaning(row))}\n# Allowed: ${row.allowed}.${computed}\n#${row.name}=${row.fallback ?? ''}\n`;
}
