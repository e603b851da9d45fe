/** All scenarios, in the order in which they run by default. */
import { breadth } from './breadth.ts';
import { cells } from './cells.ts';
import { churn } from './churn.ts';
import { drain } from './drain.ts';
import { functions } from './functions.ts';
import type { Scenario } from './lib/outcome.ts';
import { memory } from './memory.ts';
import { peers } from './peers.ts';
import { profile } from './profile.ts';
import { receive } from './receive.ts';
import { tail } from './tail.ts';
import { volume } from './volume.ts';

export const scenarios: readonly Scenario[] = [
  receive,
  peers,
  tail,
  memory,
  drain,
  churn,
  cells,
  volume,
  breadth,
  functions,
  profile,
];
