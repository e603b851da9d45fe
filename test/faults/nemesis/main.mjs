/**
 * Runs the nemesis by hand: `npm run nemesis -- [--seed S] [--seconds N] [--log]`, after a build. When an invariant is violated, the list
 * of faults is shrunk by reruns. The tests of vitest start and end everything (test/helpers/run-folder.ts), and Ctrl-C does too.
 */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { leaveCleanly, run } from '../../../server/operate/setup/run.mjs';

const root = resolve(import.meta.dirname, '../../..');

async function main() {
  const { values } = parseArgs({
    options: { seed: { type: 'string' }, seconds: { type: 'string', default: '300' }, log: { type: 'boolean' } },
  });
  const env = {
    ...process.env,
    NEMESIS_SEED: values.seed ?? String(Date.now() % 1_000_000),
    NEMESIS_SECONDS: values.seconds,
    NEMESIS_SHRINK: '1',
    ...(values.log && { NEMESIS_LOG: '1' }),
  };
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const options = ['--config', 'test/vitest.config.ts', '--disable-console-intercept', '-t', 'every invariant holds'];
  const { code } = await run(process.execPath, [vitest, 'run', 'test/faults/nemesis.test.ts', ...options], {
    cwd: root,
    env,
  });
  return code;
}

await leaveCleanly(main);
