/** What a seed fixes: the configuration and the list of faults. What clients do is random. */
import { type FaultName, faults } from './faults.ts';

/** Draws numbers from a seed (mulberry32): the same ones each time. */
export class Draw {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 2_654_435_761) >>> 0;
  }

  /** From 0 to 1, without 1. */
  share(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number; both limits are possible. */
  between(min: number, max: number): number {
    return min + Math.floor(this.share() * (max - min + 1));
  }

  chance(share: number): boolean {
    return this.share() < share;
  }

  /** An element of a list that is not empty. */
  of<T>(list: readonly T[]): T {
    return list[Math.floor(this.share() * list.length)]!;
  }
}

export interface Configuration {
  /** Machines with one Postgres and one Redis. */
  instances: number;
  /** Serving processes of each. */
  workers: number;
  spool: boolean;
  /** A second Postgres, as a cell. */
  cell: boolean;
  /** The data of home, or the spool, is on a small disk, which a fault fills. */
  smallDatabase: boolean;
  smallSpool: boolean;
  /** Home has a synchronous standby. */
  standby: boolean;
  /** The clock of Weir and Postgres passes midnight in the middle of the load. */
  midnight: boolean;
  /** The clock of the second instance less that of the first. */
  skewMs: number;
  attemptsMax: number;
  commitTimeoutMs: number;
}

export interface PlannedFault {
  name: FaultName;
  /** One after another within a sequence. */
  sequence: number;
  /** Not before this time of the load. */
  atMs: number;
  /** Until it heals. */
  forMs: number;
  /** Seed of the draws that choose its target and its details. */
  seed: number;
}

export interface Plan {
  seed: number;
  seconds: number;
  configuration: Configuration;
  faults: readonly PlannedFault[];
}

/** Faults come in so many sequences, so that as many are present at a time. */
const SEQUENCES = 3;
const FIRST_MS = [1_000, 4_000] as const;
/** Pause between two of a sequence: mostly the long one. */
const PAUSE_MS = [400, 3_500] as const;
const SHORT_PAUSE_MS = [50, 300] as const;
const SHORT_PAUSES = 0.3;

/** @param only names of the faults to draw from; by default all */
export function planOf(seed: number, seconds: number, only?: readonly FaultName[]): Plan {
  const draw = new Draw(seed);
  const configuration = configurationOf(draw);
  const possible = (Object.keys(faults) as FaultName[])
    .filter((name) => only?.includes(name) ?? true)
    .filter((name) => faults[name].needs?.(configuration) ?? true);
  const bag = possible.flatMap((name) => Array<FaultName>(faults[name].weight).fill(name));
  const planned: PlannedFault[] = [];
  for (let sequence = 0; sequence < SEQUENCES && bag.length > 0; sequence++)
    for (let atMs = draw.between(...FIRST_MS); atMs < seconds * 1_000; ) {
      const name = draw.of(bag);
      const forMs = draw.between(...(faults[name].forMs ?? [0, 0]));
      planned.push({ name, sequence, atMs, forMs, seed: draw.between(1, 2 ** 31) });
      const pause: readonly [number, number] = draw.chance(SHORT_PAUSES) ? SHORT_PAUSE_MS : PAUSE_MS;
      atMs += forMs + draw.between(...pause);
    }
  return { seed, seconds, configuration, faults: planned.sort((a, b) => a.atMs - b.atMs) };
}

function configurationOf(draw: Draw): Configuration {
  const [spool, smallDatabase, instances] = [draw.chance(0.5), draw.chance(0.25), draw.between(1, 2)];
  return {
    instances,
    workers: draw.between(1, 3),
    spool,
    cell: draw.chance(0.4),
    smallDatabase,
    smallSpool: draw.chance(0.5) && spool,
    standby: draw.chance(0.3) && !smallDatabase,
    midnight: draw.chance(0.3),
    skewMs: instances > 1 && draw.chance(0.3) ? draw.of([-2_000, 2_000]) : 0,
    attemptsMax: draw.between(3, 6),
    commitTimeoutMs: draw.of([1_000, 3_000, 10_000]),
  };
}
