/**
 * A record of these entries that inherits nothing. Text of a request that is looked up in it finds an entry or nothing, while an object
 * literal also has `constructor`, `toString`, `valueOf` and `__proto__`.
 */
export function recordOf<Value>(entries: Iterable<readonly [string, Value]> = []): Record<string, Value> {
  const record: Record<string, Value> = Object.create(null);
  for (const [name, value] of entries) record[name] = value;
  return record;
}
