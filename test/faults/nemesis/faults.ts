/** The table of faults. Each is started with the draws of its seed, lasts for a drawn time, and then heals. */
import { changeFaults } from './faults/changes.ts';
import { operationFaults } from './faults/operations.ts';
import { processFaults } from './faults/processes.ts';
import { storeFaults } from './faults/stores.ts';
import type { Configuration, Draw } from './plan.ts';
import type { World } from './world/world.ts';

export interface Fault {
  /** How often it is drawn, relative to the others. */
  weight: number;
  /** Limits of the time until it heals; absent: it is over at once. */
  forMs?: readonly [min: number, max: number];
  /** Whether it exists in this configuration; absent: in each. */
  needs?: (configuration: Configuration) => boolean;
  /** Null: its target is down, or has no such part. */
  start(world: World, draw: Draw): Promise<Started | null>;
}

interface Started {
  /** For the log: what it chose. */
  what: string;
  heal?(): unknown;
}

const table = { ...processFaults, ...storeFaults, ...changeFaults, ...operationFaults };

export type FaultName = keyof typeof table;

export const faults: Readonly<Record<FaultName, Fault>> = table;
