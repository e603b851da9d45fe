/** The journeys of the guide Development lead from file to file. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { documents, root } from './documents.ts';

const server = join(root, 'server');
/** Started by its name, not imported. */
const ENTRY = 'main.ts';

function importsOf(file: string): string[] {
  const text = readFileSync(join(server, file), 'utf8');
  return [...text.matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(([, target]) =>
    relative(server, join(server, dirname(file), target!)),
  );
}

const section = documents['views/docs/development.md']!.split('\n## Architecture\n')[1]!.split('\n## ')[0]!;
const journeys = section
  .split('\n### ')
  .slice(1)
  .map((text) => ({
    title: text.split('\n')[0]!,
    files: [...text.matchAll(/^\| `(.+?)` \|/gm)].map(([, file]) => file!),
  }));

test('there are five', () => {
  expect(journeys).toHaveLength(5);
});

describe.each(journeys)('$title', ({ files }) => {
  test('each file exists, and is imported by one before it or imports one', () => {
    expect(files.length).toBeGreaterThan(5);
    expect(files.filter((file) => !existsSync(join(server, file)))).toEqual([]);
    const apart = files.filter((file, place) => {
      const before = files.slice(0, place);
      const isJoined = before.some((other) => importsOf(other).includes(file) || importsOf(file).includes(other));
      return place > 0 && file !== ENTRY && !isJoined;
    });
    expect(apart).toEqual([]);
  });
});
