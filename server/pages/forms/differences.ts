/** What differs between two states of a resource, member by member. */
import { utc } from '../show.ts';

interface Difference {
  name: string;
  /** As text; null when the member did not exist. */
  before: string | null;
  after: string | null;
  changed: boolean;
}

/** Returns the members that have a value in one of the two states, changed members first. */
export function differences(before: object | null, after: object | null): Difference[] {
  const [old, now] = [before ?? {}, after ?? {}] as Record<string, unknown>[];
  const names = [...new Set([...Object.keys(old!), ...Object.keys(now!)])];
  const all = names
    .map((name): Difference => {
      const [was, is] = [text(old![name]), text(now![name])];
      return { name, before: was, after: is, changed: was !== is };
    })
    .filter(({ before, after }) => (before ?? after) !== null);
  return [...all.filter(({ changed }) => changed), ...all.filter(({ changed }) => !changed)];
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Strings stay as they are, except times, which are written as everywhere, and blank strings, which are shown quoted. */
function text(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' && TIME.test(value)) return utc(value);
  return typeof value === 'string' && value.trim() !== '' ? value : JSON.stringify(value);
}
