/** Outages of the database on a page: the list, and where they are in a chart. */
import type { Outage } from '../../model/outages.ts';
import type { Call } from '../call.ts';
import { partOf } from '../page.ts';

const SHOWN_MAX = '20';

/** Reads the newest outages since a time; none when they cannot be read. @param fromMs Unix milliseconds. */
export async function readOutagesSince(call: Call, fromMs: number): Promise<Outage[]> {
  const query = { from: new Date(fromMs).toISOString(), limit: SHOWN_MAX };
  return (await partOf(call('listOutages', { query })))?.items ?? [];
}

/** An outage during which requests came. */
export function isFelt({ refused, spooled }: Outage): boolean {
  return refused + spooled > 0;
}

/**
 * Shares of the width of a chart that outages take, from 0 to 1. One after the last point is at the right edge.
 * @param times Unix milliseconds of the first and the last point
 */
export function bandsOf(outages: readonly Outage[], [first, last]: [number, number]): { from: number; to: number }[] {
  const share = (iso: string) => Math.min(1, Math.max(0, (Date.parse(iso) - first) / (last - first)));
  return outages
    .map(({ began_at, ended_at }) => ({ from: share(began_at), to: share(ended_at) }))
    .filter(({ to }) => to > 0);
}
