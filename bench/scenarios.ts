/** Every scenario, in the order in which they run when none is named. */
import type { Scenario } from './lib/outcome.ts';
import { receive } from './receive.ts';

export const scenarios: readonly Scenario[] = [receive];
