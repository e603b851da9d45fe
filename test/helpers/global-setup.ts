/** Runs once before the tests: tests that start processes and threads use the compiled ones, and all share one directory. */
import { fileURLToPath } from 'node:url';
import { stateOfDist } from '../../server/operate/setup/sources.mjs';
import { openRunFolder } from './run-folder.ts';

const reasons = { missing: 'is not built', outdated: 'is older than the sources' };

export default function setup(): () => void {
  const state = stateOfDist(fileURLToPath(new URL('../..', import.meta.url)));
  if (state === 'fresh') return openRunFolder();
  const refusal = new Error(`dist/ ${reasons[state]}, and the tests start processes from it; run: npm run build`);
  // Only the message: the position in this file does not help.
  refusal.stack = '';
  throw refusal;
}
