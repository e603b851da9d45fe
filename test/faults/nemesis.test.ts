/**
 * Random faults under load, from seeds: whatever fails, what clients were answered holds. For hours: `npm run nemesis -- --seconds 3600`.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { check, invariants, type Seen } from './nemesis/checker.ts';
import { type Plan, planOf } from './nemesis/plan.ts';
import { type Outcome, runPlan } from './nemesis/run.ts';
import { sabotageRows } from './nemesis/sabotage.ts';
import { lackingForNemesis } from './nemesis/world/postgres.ts';
import type { Sabotage } from './nemesis/world/releases.ts';

const SECONDS = Number(process.env.NEMESIS_SECONDS ?? 40);
/** A spool, a cell and a standby; a cell, a small disk and midnight; two instances with a standby. */
const SEEDS = process.env.NEMESIS_SEED === undefined ? [33, 19, 27] : [Number(process.env.NEMESIS_SEED)];
/** Healing, recovery, and the settlement of every delivery. */
const REST_MS = 900_000;
const HOURS_MS = 86_400_000;
/** Reruns to find the faults that a violation needs. */
const RUNS_MAX = 20;

if (lackingForNemesis !== '') console.warn(`The nemesis is skipped: this machine lacks ${lackingForNemesis}.`);

const small = {
  instances: 1,
  workers: 1,
  cell: false,
  spool: false,
  smallSpool: false,
  smallDatabase: false,
  standby: false,
};
const drawn = planOf(1, 5);
/** Without faults. */
const calm: Plan = { ...drawn, configuration: { ...drawn.configuration, ...small }, faults: [] };

/** The faults that these violations need. */
function shrunk(plan: Plan, { violations }: Outcome, sabotage?: Sabotage): Promise<Plan['faults']> {
  const kinds = new Set(violations.map(({ invariant }) => invariant));
  return shrink(plan.faults, async (faults) => {
    const again = await runPlan({ ...plan, faults }, sabotage);
    const fails = again.violations.some(({ invariant }) => kinds.has(invariant));
    console.log(`${faults.length} of ${plan.faults.length} faults: ${fails ? 'violated' : 'holds'}`);
    return fails;
  });
}

describe.skipIf(lackingForNemesis !== '')('random faults', () => {
  const shrinks = process.env.NEMESIS_SHRINK !== undefined;
  const timeout = SECONDS * 1_000 + REST_MS + (shrinks ? HOURS_MS : 0);

  test.each(SEEDS)('seed %i: every invariant holds', { timeout }, async (seed) => {
    const plan = planOf(seed, SECONDS);
    const outcome = await runPlan(plan);
    console.log(JSON.stringify(outcome.summary));
    for (const { invariant, text } of outcome.violations) console.log(`VIOLATED: ${invariant}: ${text}`);
    const needed = shrinks && outcome.violations.length > 0 ? await shrunk(plan, outcome) : [];
    const rerun = `npm run nemesis -- --seed ${seed} --seconds ${SECONDS}`;
    expect({ violations: outcome.violations, needed, rerun }).toEqual({ violations: [], needed: [], rerun });
  });

  describe('the checker', () => {
    let seen: Seen;
    beforeAll(async () => {
      const outcome = await runPlan(calm);
      expect(outcome.violations).toEqual([]);
      seen = outcome.seen;
    });

    test.each(sabotageRows)('reports $invariant when $way', ({ invariant, applied }) => {
      expect(check(applied(seen)).map((violation) => violation.invariant)).toContain(invariant);
    });

    test('has a sabotage of each invariant', () => {
      expect(new Set(sabotageRows.map(({ invariant }) => invariant))).toEqual(new Set(Object.keys(invariants)));
    });
  });

  test('a build with a fault: it is found, and the list of faults is shrunk to the one that it needs', async () => {
    // Events are answered 202 while Postgres is away. The bundler may add to a name.
    const sabotage: Sabotage = (release) =>
      release.replace('server/receive/ingest/group-commit.ts', (built) =>
        built.replace(
          /(!this\.available\) return group\.report\()notStoredNow[$\d]*/,
          "$1{ kind: 'stored', duplicates: new Map() }",
        ),
      );
    const faults: Plan['faults'] = [
      { name: 'Redis loses its data', sequence: 0, atMs: 500, forMs: 0, seed: 1 },
      { name: 'rolling restart', sequence: 1, atMs: 1_000, forMs: 0, seed: 1 },
      { name: 'Postgres ends at once', sequence: 2, atMs: 2_000, forMs: 2_000, seed: 1 },
      { name: 'TERM to a process', sequence: 0, atMs: 5_000, forMs: 0, seed: 1 },
    ];
    const plan = { ...calm, seconds: 6, faults };
    const outcome = await runPlan(plan, sabotage);
    expect(outcome.violations.map(({ invariant }) => invariant)).toContain('a request that was answered 202 is stored');
    expect(await shrunk(plan, outcome, sabotage)).toEqual([faults[2]]);
  });
});

/**
 * The faults that a violation needs, by runs without some of them (delta debugging, Zeller and Hildebrandt 2002): a part of the list for which
 * `fails` resolves with true, after at most `runsMax` calls. With runs to spare, no element of it can be left out alone. Clients are random: a
 * part that fails now and then may be missed.
 */
async function shrink<T>(
  list: readonly T[],
  fails: (part: readonly T[]) => Promise<boolean>,
  runsMax = RUNS_MAX,
): Promise<readonly T[]> {
  let rest = list;
  let pieces = 2;
  for (let runs = 0; rest.length > 0; ) {
    const size = Math.ceil(rest.length / pieces);
    let shrunk: readonly T[] | null = null;
    for (let from = 0; from < rest.length && shrunk === null; from += size) {
      if (runs++ >= runsMax) return rest;
      const part = [...rest.slice(0, from), ...rest.slice(from + size)];
      if (await fails(part)) shrunk = part;
    }
    if (shrunk === null && size === 1) return rest;
    pieces = shrunk === null ? Math.min(pieces * 2, rest.length) : Math.max(pieces - 1, 2);
    rest = shrunk ?? rest;
  }
  return rest;
}
