import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const bench = fileURLToPath(new URL('../../dist/bench/run.js', import.meta.url));

test.each([
  ['functions', 'code of a serving process'],
  ['drain', 'a Weir with a database of its own'],
])(
  'the bundled scenario %s runs: %s',
  async (name) => {
    const command = [bench, name, '--rounds', '1', '--seconds', '0.2', '--no-keep'];
    // A goal that such a short window misses is not a failure; a fault is.
    const { stdout } = await promisify(execFile)(process.execPath, command);
    expect(stdout).toContain(`## ${name}: `);
    expect(stdout).toMatch(/^\|-+\|/m);
  },
  180_000,
);
