/** A health strip: the last 24 hours of a webhook or an agent in 96 cells, drawn by the server as SVG. */
import { QUARTER_SECONDS, QUARTERS_SHOWN, quartersSince } from '../../model/history.ts';
import type { Outage } from '../../model/issues.ts';
import { count, plural } from '../show.ts';

const QUARTER_MS = QUARTER_SECONDS * 1_000;
/** Units of the drawing, which is stretched to the width that it gets. */
const [CELL, BAR, HEIGHT] = [8, 6, 24];
/** A good bar is lower than a bad one, so that colours are not needed to tell them apart. */
const GOOD_TOP = 8;
const BAD_HEIGHT_MIN = 6;
const QUIET_HEIGHT = 2;

interface StripOf<Name extends string> {
  /** The quarters of an hour with counts; undefined: they could not be read. */
  quarters: readonly ({ at: string } & Record<NoInfer<Name>, number>)[] | undefined;
  /** The counts and what they are called: the first is good, the others are bad. */
  words: Readonly<Record<Name, string>>;
  /** What is bad about a cell, such as “refusals”. */
  trouble: string;
  /** Where the requests or deliveries of a cell are listed. */
  hrefOf: (from: string, to: string, counts: Record<NoInfer<Name>, number>) => string;
  outages: readonly Outage[];
  nowMs: number;
}

/** Draws a strip; null without counts. `bars`: attribute `d` of each kind; `cells`: links of cells with trouble; `label`: its text. */
export function stripOf<Name extends string>(given: StripOf<Name>) {
  const { quarters, words, trouble, hrefOf, outages, nowMs } = given;
  if (quarters === undefined) return null;
  const sinceMs = quartersSince(nowMs);
  const names = Object.keys(words) as Name[];
  const textOf = (counts: Record<Name, number>) =>
    names
      .filter((name, place) => place === 0 || counts[name] > 0)
      .map((name) => `${count(counts[name])} ${words[name]}`)
      .join(', ');
  const counted = new Map(quarters.map((quarter) => [Date.parse(quarter.at), quarter]));
  const bars = { quiet: '', good: '', bad: '', outage: '' };
  const cells: { x: number; at: string; text: string; href: string }[] = [];
  const troubled = { bad: 0, out: 0 };
  for (let index = 0; index < QUARTERS_SHOWN; index++) {
    const x = index * CELL;
    const atMs = sinceMs + index * QUARTER_MS;
    const [at, to] = [new Date(atMs).toISOString(), new Date(atMs + QUARTER_MS).toISOString()];
    const quarter = counted.get(atMs);
    const good = quarter?.[names[0]!] ?? 0;
    const bad = quarter === undefined ? 0 : names.slice(1).reduce((sum, name) => sum + quarter[name], 0);
    const isOut = outages.some(({ began_at, ended_at }) => began_at < to && ended_at >= at);
    if (bad > 0) troubled.bad++;
    if (isOut) {
      troubled.out++;
      bars.outage += bar(x, 0, HEIGHT);
    } else if (quarter) {
      const badHeight = badHeightOf(good, bad);
      if (badHeight > 0) bars.bad += bar(x, 0, badHeight);
      if (good > 0) bars.good += bar(x, Math.max(GOOD_TOP, badHeight), HEIGHT);
    } else bars.quiet += bar(x, HEIGHT - QUIET_HEIGHT, HEIGHT);
    if (!isOut && bad === 0) continue;
    const text = [isOut && 'outage of the database', quarter && textOf(quarter)].filter(Boolean).join(', ');
    cells.push({ x, at, text, href: isOut ? '/issues?state=resolved' : hrefOf(at, to, quarter!) });
  }
  const totals = Object.fromEntries(
    names.map((name) => [name, quarters.reduce((sum, quarter) => sum + quarter[name], 0)]),
  ) as Record<Name, number>;
  const parts = [textOf(totals)];
  if (troubled.bad > 0) parts.push(`${trouble} in ${troubled.bad} of ${QUARTERS_SHOWN} quarter hours`);
  if (troubled.out > 0) parts.push(`an outage in ${plural(troubled.out, 'quarter hour')}`);
  const label = `Last 24 hours: ${parts.join(', ')}`;
  return { width: QUARTERS_SHOWN * CELL, height: HEIGHT, cell: CELL, bars, cells, label };
}

/** Height of the bad part of a bar: the whole bar if nothing was good. */
function badHeightOf(good: number, bad: number): number {
  if (bad === 0) return 0;
  if (good === 0) return HEIGHT;
  return Math.round(Math.min(HEIGHT - BAD_HEIGHT_MIN, Math.max(BAD_HEIGHT_MIN, (HEIGHT * bad) / (good + bad))));
}

function bar(x: number, top: number, bottom: number): string {
  return `M${x + 1} ${top}h${BAR}V${bottom}h-${BAR}z`;
}
