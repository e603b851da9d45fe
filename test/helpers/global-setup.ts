/** Runs once before the tests: those that start processes and threads start the compiled ones, and share one Postgres. */
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { stateOfDist } from '../../server/setup/sources.mjs';
import { offerPostgres } from './run-postgres.ts';

const reasons = { missing: 'is not built', outdated: 'is older than the sources' };

export default function setup(project: TestProject): Promise<() => Promise<void>> {
  const state = stateOfDist(fileURLToPath(new URL('../..', import.meta.url)));
  if (state === 'fresh') return offerPostgres(project);
  const refusal = new Error(`dist/ ${reasons[state]}, and the tests start processes from it; run: npm run build`);
  // One sentence: where in this file it was thrown helps nobody.
  refusal.stack = '';
  throw refusal;
}
