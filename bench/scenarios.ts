/** All scenarios, in the order in which they run by default. */
import { batch } from './batch.ts';
import { deliver } from './deliver.ts';
import { drain } from './drain.ts';
import { fanOut } from './fan-out.ts';
import { functions } from './functions.ts';
import { hmac } from './hmac.ts';
import type { Scenario } from './lib/outcome.ts';
import { pages } from './pages.ts';
import { persist } from './persist.ts';
import { profile } from './profile.ts';
import { receive } from './receive.ts';
import { search } from './search.ts';

export const scenarios: readonly Scenario[] = [
  receive,
  batch,
  fanOut,
  deliver,
  drain,
  persist,
  pages,
  search,
  hmac,
  functions,
  profile,
];
