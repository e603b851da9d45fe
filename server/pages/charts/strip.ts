/** A health strip: the last 24 hours of a webhook or an agent in 96 cells, drawn by the server as SVG. */
import { QUARTER_SECONDS, QUARTERS_SHOWN } from '../../model/history.ts';
import type { Outage } from '../../model/outages.ts';
import { plural } from '../show.ts';

const QUARTER_MS = QUARTER_SECONDS * 1_000;
/** Units of the drawing, which is stretched to the width that it gets. */
const [CELL, BAR, HEIGHT] = [8, 6, 24];
/** A good bar is lower than a bad one, so that colours are not needed to tell them apart. */
const GOOD_TOP = 8;
const BAD_HEIGHT_MIN = 6;
const QUIET_HEIGHT = 2;

/** What happened in a quarter of an hour. */
export interface Quarter {
  /** ISO, like `to`. */
  at: string;
  good: number;
  bad: number;
  /** In words, such as “12 accepted, 3 refused”. */
  text: string;
  /** Where the requests or deliveries of the time are listed. */
  href: string;
}

interface Cell {
  x: number;
  at: string;
  to: string;
  text: string;
  href: string;
  trouble: boolean;
}

export interface Strip {
  width: number;
  height: number;
  cell: number;
  /** Attribute `d` of the bars of one kind. */
  bars: Record<'quiet' | 'good' | 'bad' | 'outage', string>;
  cells: Cell[];
  /** The strip in words. */
  label: string;
}

interface StripOf {
  /** Start of the first cell, Unix milliseconds. */
  sinceMs: number;
  quarters: readonly Quarter[];
  outages: readonly Outage[];
  /** Where the list of a time without any counts is. */
  quietHref: (at: string, to: string) => string;
  /** All counts in words, such as “1,980 accepted”. */
  total: string;
  /** What is bad about a cell, such as “refusals”. */
  trouble: string;
}

/** Times of a quarter of an hour. @param index its number from `sinceMs` on */
export function timesOf(sinceMs: number, index: number): [at: string, to: string] {
  const atMs = sinceMs + index * QUARTER_MS;
  return [new Date(atMs).toISOString(), new Date(atMs + QUARTER_MS).toISOString()];
}

export function stripOf({ sinceMs, quarters, outages, quietHref, total, trouble }: StripOf): Strip {
  const bars: Strip['bars'] = { quiet: '', good: '', bad: '', outage: '' };
  const counted = new Map(quarters.map((quarter) => [(Date.parse(quarter.at) - sinceMs) / QUARTER_MS, quarter]));
  let bad = 0;
  let out = 0;
  const cells = Array.from({ length: QUARTERS_SHOWN }, (_, index): Cell => {
    const x = index * CELL;
    const [at, to] = timesOf(sinceMs, index);
    const quarter = counted.get(index);
    const isOut = outages.some(({ began_at, ended_at }) => began_at < to && ended_at >= at);
    const texts = [...(isOut ? ['outage of the database'] : []), ...(quarter ? [quarter.text] : [])];
    if (isOut) {
      out++;
      bars.outage += bar(x, 0, HEIGHT);
    } else if (quarter) {
      const badHeight = badHeightOf(quarter);
      if (badHeight > 0) bars.bad += bar(x, 0, badHeight);
      if (quarter.good > 0) bars.good += bar(x, Math.max(GOOD_TOP, badHeight), HEIGHT);
    } else bars.quiet += bar(x, HEIGHT - QUIET_HEIGHT, HEIGHT);
    if ((quarter?.bad ?? 0) > 0) bad++;
    return {
      x,
      at,
      to,
      text: texts.join(', ') || 'nothing',
      href: isOut ? '/status#outage-list' : (quarter?.href ?? quietHref(at, to)),
      trouble: isOut || (quarter?.bad ?? 0) > 0,
    };
  });
  const parts = [total, ...(bad > 0 ? [`${trouble} in ${bad} of ${QUARTERS_SHOWN} quarter hours`] : [])];
  if (out > 0) parts.push(`an outage in ${plural(out, 'quarter hour')}`);
  return {
    width: QUARTERS_SHOWN * CELL,
    height: HEIGHT,
    cell: CELL,
    bars,
    cells,
    label: `Last 24 hours: ${parts.join(', ')}`,
  };
}

/** Height of the bad part of a bar: the whole bar if nothing was good. */
function badHeightOf({ good, bad }: Quarter): number {
  if (bad === 0) return 0;
  if (good === 0) return HEIGHT;
  return Math.round(Math.min(HEIGHT - BAD_HEIGHT_MIN, Math.max(BAD_HEIGHT_MIN, (HEIGHT * bad) / (good + bad))));
}

function bar(x: number, top: number, bottom: number): string {
  return `M${x + 1} ${top}h${BAR}V${bottom}h-${BAR}z`;
}
