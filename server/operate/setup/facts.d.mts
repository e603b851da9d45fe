import type { Facts } from './plan.mjs';

/** Facts of this machine and of the project in `root`. @param tests whether the tests will run as well */
export function readFacts(root: string, tests: boolean): Facts;
