/** Line charts as SVG paths: numbers in, coordinates out; the template draws. */

/** Space between the top and the highest line, in units of the coordinates. */
const HEADROOM = 6;

/**
 * Draws a chart. `lines`: for each series in order, attribute `d` of the line and of the area under it. `ticks`: the horizontal grid lines.
 * @param series values by name, oldest first, all of the same length; null is a time without a measurement, a gap in the line.
 * @param pointsMax width in points. When fewer points are given, the line is aligned to the right.
 */
export function chart(
  series: Readonly<Record<string, readonly (number | null)[]>>,
  pointsMax: number,
  frame: { width: number; height: number },
) {
  const greatest = Math.max(0, ...Object.values(series).flatMap((values) => values.map((value) => value ?? 0)));
  const top = niceCeiling(greatest);
  const floor = frame.height;
  const stepX = frame.width / Math.max(1, pointsMax - 1);
  const y = (value: number) => round(floor - (value / top) * (floor - HEADROOM));
  const lines = Object.entries(series).map(([name, values]) => {
    const x = (index: number) => round(frame.width - (values.length - 1 - index) * stepX);
    const runs = runsOf(values).map((run) => run.map(([index, value]) => [x(index), y(value)] as const));
    return {
      name,
      // A point with a gap on both sides is drawn as a short dash, otherwise it would be invisible.
      line: runs
        .map((run) => `M${run.map((point) => point.join(' ')).join('L')}${run.length === 1 ? 'h1' : ''}`)
        .join(''),
      area: runs
        .map(
          (run) =>
            `M${run[0]![0]} ${floor}L${run.map((point) => point.join(' ')).join('L')}L${run.at(-1)![0]} ${floor}Z`,
        )
        .join(''),
    };
  });
  const ticks = [0, top / 2, top].map((value) => ({ value, y: y(value) }));
  return { frame, lines, ticks };
}

/** Runs of values without a gap, as pairs of index and value. */
function runsOf(values: readonly (number | null)[]): [number, number][][] {
  const runs: [number, number][][] = [[]];
  values.forEach((value, index) => {
    if (value !== null) runs.at(-1)!.push([index, value]);
    else if (runs.at(-1)!.length > 0) runs.push([]);
  });
  return runs.filter((run) => run.length > 0);
}

/** The next of 1, 2, 4 or 5 times a power of ten that is not below the value, at least 1. Half of it is easily read too. */
export function niceCeiling(value: number): number {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((step) => step * power).find((ceiling) => ceiling >= value)!;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

export const sparkFrame = { width: 120, height: 26 };

/** The line of a small chart of hourly counts, oldest first. */
export function sparkOf(hours: readonly number[]) {
  // The last hour is not over. While it has less than the hour before, it would look like an outage.
  const [before, last] = hours.slice(-2);
  const drawn = last !== undefined && last < before! ? hours.slice(0, -1) : hours;
  return chart({ accepted: drawn }, drawn.length, sparkFrame).lines[0]!;
}
