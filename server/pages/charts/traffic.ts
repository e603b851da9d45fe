/** Requests to all webhooks or to one over time: the chart, its totals, and the share that was not accepted. */
import { type HistoryCounts, historyColumns, noCounts } from '../../model/history.ts';
import type { Outage } from '../../model/outages.ts';
import { address, count } from '../show.ts';
import { type Change, marksOf } from './changes.ts';
import { chart } from './chart.ts';
import { bandsOf, isFelt } from './outage-list.ts';

const chartFrame = { width: 900, height: 182 };

/** `refused`: for another reason than the signature or the rate limit. */
type Counts = HistoryCounts & { refused: number };
const shown = ['accepted', 'rejected', 'limited', 'refused'] as const;
const words = { accepted: 'accepted', rejected: 'rejected', limited: 'rate limited', refused: 'refused' };

/** Smallest share of the height at which a value above 0 is drawn: 3 of 10,000 requests would not be seen. */
const DRAWN_SHARE_MIN = 0.02;

/** The counts with `refused`. */
export function withRefused<Counted extends HistoryCounts>(counted: Counted): Counted & Counts {
  const { disabled, length_required, too_large, unavailable } = counted;
  return { ...counted, refused: disabled + length_required + too_large + unavailable };
}

/**
 * The chart, in which the interval that is not over is marked, and the counts of its points.
 * @param text the span in words, such as “the last 24 hours”.
 * @param webhookId null: all webhooks
 */
export function trafficOf(
  counted: readonly ({ at: string } & HistoryCounts)[],
  text: string,
  outages: readonly Outage[],
  webhookId: string | null,
  changes: readonly Change[] = [],
) {
  const stepMs = Date.parse(counted[1]!.at) - Date.parse(counted[0]!.at);
  const points = counted.map((point) => {
    const at = { webhook_id: webhookId, from: point.at, to: new Date(Date.parse(point.at) + stepMs).toISOString() };
    return { ...withRefused(point), events: address('/events', at), rejections: address('/rejections', at) };
  });
  const greatest = Math.max(...points.flatMap((point) => shown.map((name) => point[name])));
  const totals = shown.map((name) => points.reduce((sum, point) => sum + point[name], 0));
  const busiest = points.reduce((most, point) => (point.accepted > most.accepted ? point : most), points[0]!);
  const peak = busiest.accepted === 0 ? '' : `; most accepted at ${busiest.at.slice(0, 16).replace('T', ' ')} UTC`;
  const ends: [number, number] = [Date.parse(points[0]!.at), Date.parse(points.at(-1)!.at)];
  return {
    points,
    accepted: totals[0]!,
    changes,
    marks: marksOf(changes, ends),
    outages: outages.filter(isFelt),
    bands: [...bandsOf(outages, ends), { from: (points.length - 2) / (points.length - 1), to: 1, running: true }],
    chart: chart(
      Object.fromEntries(shown.map((name) => [words[name], points.map((point) => drawn(point[name], greatest))])),
      points.length,
      chartFrame,
    ),
    legend: shown.map((name, i) => ({ name: words[name], total: totals[i]! })),
    label: `Requests in ${text}: ${shown.map((name, i) => `${count(totals[i]!)} ${words[name]}`).join(', ')}${peak}`,
  };
}

const drawn = (value: number, greatest: number) => (value > 0 ? Math.max(value, greatest * DRAWN_SHARE_MIN) : 0);

/** The counts of all points together. */
export function sumOf(points: readonly HistoryCounts[]): HistoryCounts {
  const sum = noCounts();
  for (const point of points) for (const name of historyColumns) sum[name] += point[name];
  return sum;
}

/** Share of requests that were not accepted, in percent, as text; '–' without requests. */
export function errorShare(counts: HistoryCounts): string {
  const { accepted, duplicates, rejected, limited, refused } = withRefused(counts);
  const all = accepted + duplicates + rejected + limited + refused;
  const percent = (100 * (rejected + limited + refused)) / all;
  if (all === 0) return '–';
  return percent === 0 ? '0 %' : percent < 0.1 ? '< 0.1 %' : `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}
