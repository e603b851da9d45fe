/** Every scenario, in the order in which they run when none is named. */
import { drain } from './drain.ts';
import { functions } from './functions.ts';
import { hmac } from './hmac.ts';
import type { Scenario } from './lib/outcome.ts';
import { persist } from './persist.ts';
import { receive } from './receive.ts';

export const scenarios: readonly Scenario[] = [receive, persist, hmac, functions, drain];
