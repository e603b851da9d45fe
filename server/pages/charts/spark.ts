/** Counts by hour as a small line. */
import { chart } from './chart.ts';

export const sparkFrame = { width: 120, height: 26 };

export function sparkOf(hours: readonly number[]) {
  // The last hour is not over: as long as it has less than the one before it, it would look like an outage.
  const [before, last] = hours.slice(-2);
  const drawn = last !== undefined && last < before! ? hours.slice(0, -1) : hours;
  return chart({ accepted: drawn }, drawn.length, sparkFrame).lines[0]!;
}
