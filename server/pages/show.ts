/** Formats values for templates. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time/durations.ts';
import { counted } from '../model/words.ts';

export { reasonTitle } from '../model/signatures/diagnosis/reasons.ts';
/** `1 event`, `2 events` */
export { counted as plural };

const units = ['B', 'KB', 'MB', 'GB', 'TB'];

/** `19.3 KB`; units of 1,000, as for disks and networks. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** `1,234,567` */
export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** `12`, or an estimate: `about 12,000`, and `few` where a sample found none. */
export function about(value: number, exact: boolean): string {
  if (exact) return count(value);
  return value === 0 ? 'few' : `about ${count(value)}`;
}

/** `0.8 ms`, `12 ms`, `1.5 s` */
export function milliseconds(value: number): string {
  if (value >= 1000) return `${(value / 1000).toFixed(value >= 10_000 ? 0 : 1)} s`;
  return `${value >= 10 ? Math.round(value) : value.toFixed(1)} ms`;
}

/** A time from an event's receipt: `12 ms`, `1.2 s`, `4 min 3 s`, `3 h 2 min`, `2 days`. */
export function duration(ms: number): string {
  if (ms < MINUTE_MS) return milliseconds(ms);
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min ${Math.floor((ms % MINUTE_MS) / 1_000)} s`;
  if (ms < 2 * DAY_MS) return `${Math.floor(ms / HOUR_MS)} h ${Math.floor((ms % HOUR_MS) / MINUTE_MS)} min`;
  return `${Math.floor(ms / DAY_MS)} days`;
}

const spans = [
  ['day', 86_400],
  ['h', 3_600],
  ['min', 60],
] as const;

/** Time elapsed since `iso`, in the largest unit only: `3 days`, `2 h`, `12 min`, `< 1 min`. */
export function span(iso: string, nowMs: number): string {
  const seconds = (nowMs - Date.parse(iso)) / 1000;
  for (const [unit, length] of spans)
    if (seconds >= length)
      return unit === 'day' ? counted(Math.floor(seconds / length), unit) : `${Math.floor(seconds / length)} ${unit}`;
  return '< 1 min';
}

/** The last characters of an id, which differ between UUIDv7 values of the same time. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}

/** Names in one cell of a table. */
export const NAMES_SHOWN = 10;

/**
 * The names of some webhooks or agents, at most NAMES_SHOWN: `shop, mail and 3 more`. One without a name is shown by its id.
 * @param all how many there are, if `ids` are the first of them
 */
export function names(ids: readonly string[], byId: Readonly<Record<string, string>>, all = ids.length): string {
  const shown = ids.slice(0, NAMES_SHOWN).map((id) => byId[id] ?? shortId(id));
  const more = all - shown.length;
  return shown.join(', ') + (more > 0 ? ` and ${count(more)} more` : '');
}

/** `2026-11-21 09:54:24 UTC`; weir.js replaces it with the browser's time zone. */
export function utc(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
}

/** `2026-11-21T09:54:24` in UTC, the format of a time field; text that is not a time is unchanged. */
export function timeField(text: string): string {
  const at = new Date(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`);
  return Number.isNaN(at.getTime()) ? text : at.toISOString().slice(0, 19);
}

/** `No signature`: the words with a capital letter, as a heading. */
export function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The URL of a path with these parameters; undefined, null and '' are omitted. */
export function address(path: string, parameters: Record<string, string | number | null | undefined>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== null && value !== '') given.set(name, String(value));
  const query = given.toString();
  return query === '' ? path : `${path}?${query}`;
}
