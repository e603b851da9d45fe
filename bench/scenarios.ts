/** All scenarios, in the order in which they run by default. */
import { batch } from './batch.ts';
import { breadth } from './breadth.ts';
import { cells } from './cells.ts';
import { churn } from './churn.ts';
import { crowd } from './crowd.ts';
import { deliver } from './deliver.ts';
import { drain } from './drain.ts';
import { fanOut } from './fan-out.ts';
import { filled } from './filled.ts';
import { filter } from './filter.ts';
import { functions } from './functions.ts';
import { hmac } from './hmac.ts';
import { idle } from './idle.ts';
import type { Scenario } from './lib/outcome.ts';
import { memory } from './memory.ts';
import { pages } from './pages.ts';
import { peers } from './peers.ts';
import { persist } from './persist.ts';
import { profile } from './profile.ts';
import { receive } from './receive.ts';
import { retention } from './retention.ts';
import { search } from './search.ts';
import { steady } from './steady.ts';
import { tail } from './tail.ts';
import { volume } from './volume.ts';

export const scenarios: readonly Scenario[] = [
  receive,
  peers,
  steady,
  tail,
  batch,
  fanOut,
  filled,
  idle,
  memory,
  deliver,
  drain,
  churn,
  cells,
  filter,
  persist,
  pages,
  search,
  volume,
  breadth,
  retention,
  crowd,
  hmac,
  functions,
  profile,
];
