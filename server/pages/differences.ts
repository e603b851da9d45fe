/** What a change changed, for people: the states before and after, member by member. */

interface Difference {
  name: string;
  /** As text; null: there was nothing. */
  before: string | null;
  after: string | null;
  changed: boolean;
}

/** Every member of the two states, those that differ first. */
export function differences(before: object | null, after: object | null): Difference[] {
  const [old, now] = [before ?? {}, after ?? {}] as Record<string, unknown>[];
  const names = [...new Set([...Object.keys(old!), ...Object.keys(now!)])];
  const all = names.map((name): Difference => {
    const [was, is] = [text(old![name]), text(now![name])];
    return { name, before: was, after: is, changed: was !== is };
  });
  return [...all.filter(({ changed }) => changed), ...all.filter(({ changed }) => !changed)];
}

/** Strings as they are, unless that could be taken for nothing. */
function text(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  return typeof value === 'string' && value.trim() !== '' ? value : JSON.stringify(value);
}
