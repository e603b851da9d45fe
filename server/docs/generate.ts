/** Regenerates the documents of a checkout from the tables in the code. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { settingGroups } from '../settings/table.ts';
import { contentsOf } from './contents.ts';
import { replaceRegion, type SettingRow, sentence, settingRows, shownDefault, shownMeaning, tables } from './tables.ts';

/** Returns the README with all regions regenerated. Throws when a region's markers are missing. @param program all commands */
export function renderReadme(page: string, program: Command): string {
  const filled = Object.entries(tables).reduce(
    (text, [name, render]) => replaceRegion(text, name, render(program)),
    page,
  );
  return replaceRegion(filled, 'contents', contentsOf(filled));
}

/** Rewrites README.md and .env.example in `directory`; returns the names of the files that changed. */
export function writeDocs(directory: string, program: Command): string[] {
  const readme = join(directory, 'README.md');
  const wanted = {
    [readme]: renderReadme(readFileSync(readme, 'utf8'), program),
    [join(directory, '.env.example')]: envExample(),
  };
  const outdated = Object.entries(wanted).filter(([path, text]) => readOrEmpty(path) !== text);
  for (const [path, text] of outdated) writeFileSync(path, text);
  return outdated.map(([path]) => path.slice(directory.length + 1));
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
# Written by \`npm run docs\` from server/settings/rows; don't edit it here.
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
