/** Runs once before the tests: those that start processes and threads start the compiled ones, and all share one folder. */
import { fileURLToPath } from 'node:url';
import { stateOfDist } from '../../server/setup/sources.mjs';
import { openRunFolder } from './run-folder.ts';

const reasons = { missing: 'is not built', outdated: 'is older than the sources' };

export default function setup(): () => void {
  const state = stateOfDist(fileURLToPath(new URL('../..', import.meta.url)));
  if (state === 'fresh') return openRunFolder();
  const refusal = new Error(`dist/ ${reasons[state]}, and the tests start processes from it; run: npm run build`);
  // One sentence: where in this file it was thrown helps nobody.
  refusal.stack = '';
  throw refusal;
}
