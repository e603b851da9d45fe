/** Finds the faults that a violation needs, by runs without some of them (delta debugging, Zeller and Hildebrandt 2002). */

export const RUNS_MAX = 20;

/**
 * A part of the list for which `fails` resolves with true, after at most `runsMax` calls. With runs to spare, no element of it can be left
 * out alone. Clients are random: a part that fails now and then may be missed.
 */
export async function shrink<T>(
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
