import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../..', import.meta.url).pathname;
const results = readdirSync(`${root}/bench/results`)
  .filter((name) => name.endsWith('.jsonl'))
  .flatMap((name) => readFileSync(`${root}/bench/results/${name}`, 'utf8').trim().split('\n'))
  .map((line) => JSON.parse(line) as { scenario: string; at: string; machine: { commit: string } });

function git(...args: string[]): string | null {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return null;
  }
}

test('stored results name commits of this history', () => {
  const known = git('rev-parse', '--is-shallow-repository') === 'false';
  const wrong = results.filter(({ machine: { commit } }) => {
    const [, id] = /^([0-9a-f]{7,40})\+?$/.exec(commit) ?? [];
    // A copy without the history has no commits to compare with.
    return id === undefined || (known && git('merge-base', '--is-ancestor', id, 'HEAD') === null);
  });
  expect(wrong.map(({ scenario, at, machine }) => `${scenario} ${at} ${machine.commit}`)).toEqual([]);
});
