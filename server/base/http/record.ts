/**
 * Creates a record without a prototype. Use it for lookups by text from a request: an object literal would also match `constructor`,
 * `toString`, `valueOf` and `__proto__`.
 */
export function recordOf<Value>(entries: Iterable<readonly [string, Value]> = []): Record<string, Value> {
  const record: Record<string, Value> = Object.create(null);
  for (const [name, value] of entries) record[name] = value;
  return record;
}
