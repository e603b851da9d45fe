/** What the tests see of plan.mjs. */
export interface Facts {
  tests: boolean;
  platform: string;
  arch: string;
  nodeVersion: string;
  /** `null`: another C library. */
  glibc: string | null;
  uid: number;
  canSudo: () => boolean;
  /** Those of apt-get and of the items that packageTable's rows provide that this machine has. */
  found: string[];
  /** What `npm ci` should have been run for, and what it was run for last. */
  wanted: string;
  installed: string;
  /** Why the native binary of uWebSockets.js is not the known one; `null`: it is. */
  binaryProblem: string | null;
  dist: 'missing' | 'outdated' | 'fresh';
  weirUser: boolean;
}

export type Step =
  /** `optional`: the set-up continues without them. */
  | { kind: 'packages'; packages: string[]; sudo: boolean; optional: boolean }
  | { kind: 'user' }
  | { kind: 'install'; wanted: string }
  | { kind: 'build' };

export function planSetup(facts: Facts): { kind: 'refuse'; sentence: string } | { kind: 'do'; steps: Step[] };
