/** The time of a request, and its distance to the clock of the receiver. */
import { readPointer } from './code-schemes.ts';
import type { PathStep } from './json-scan.ts';

/** How the time of a scheme is checked. */
export interface Clock {
  readonly toleranceMs: number;
  readonly unit: 's' | 'ms';
  /** Path of the time in the body; null: `present` has read it. */
  readonly path: readonly PathStep[] | null;
}

/** ISO 8601, as some senders write the time. */
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)?$/;

/**
 * How far the request's time is from the receiver's clock, in milliseconds; negative: it is behind. Null if the request holds no time.
 * @param time as `present` read it.
 */
export function clockDistance(
  { unit, path }: Clock,
  time: string | null,
  body: Uint8Array,
  nowMs: number,
): number | null {
  const text = path === null ? time : readPointer(body, path);
  if (text === null) return null;
  const iso = ISO_TIME.exec(text);
  // Without a zone it is UTC, as the senders mean it.
  if (iso !== null) return Date.parse(iso[1] === undefined ? `${text}Z` : text) - nowMs;
  if (!/^\d{1,16}(?:\.\d{1,9})?$/.test(text)) return null;
  return Number(text) * (unit === 's' ? 1000 : 1) - nowMs;
}
