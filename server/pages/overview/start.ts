/** The checklist of first steps on the overview. */

import { within } from '../../base/time/within.ts';
import type { Database } from '../../store/connect/pool.ts';
import { type FirstSteps, readFirstSteps } from '../../store/queries/start.ts';
import { PART_MS_MAX, type Page } from '../page.ts';

/** The steps, or null once webhook, event, agent and acknowledged delivery are there: the steps are not read again after that. */
type Start = () => Promise<FirstSteps | null>;

/** A colleague is optional: an installation of one person is complete without one. */
export function createStart(database: Database): Start {
  let isDone = false;
  return async () => {
    if (isDone) return null;
    const steps = await readFirstSteps(database);
    isDone = steps.webhook !== null && steps.event && steps.agent !== null && steps.acknowledged;
    return isDone ? null : steps;
  };
}

/** The page with the first steps in its data; without them when reading them takes long. */
export function withStart(page: Page, start: Start): Page {
  return async (request) => {
    const [reply, steps = null] = await Promise.all([page(request), within(PART_MS_MAX, start())]);
    return reply.kind === 'view' ? { ...reply, data: { ...reply.data, start: steps } } : reply;
  };
}
