/** Regenerates the documents of a checkout from the tables in the code. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { envExample } from './env-example.ts';
import { replaceRegion } from './regions.ts';
import { regions } from './tables.ts';

/** Returns the README with all regions regenerated. Throws when a region's markers are missing. */
export function renderReadme(page: string): string {
  return Object.entries(regions).reduce((text, [name, render]) => replaceRegion(text, name, render()), page);
}

/** Rewrites README.md and .env.example in `directory`; returns the names of the files that changed. */
export function writeDocs(directory: string): string[] {
  const readme = join(directory, 'README.md');
  const wanted = {
    [readme]: renderReadme(readFileSync(readme, 'utf8')),
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
