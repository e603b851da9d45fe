/** Filters of lists: they live in the address, so that a list can be kept, sent and gone back to. */

/** Those of the named parameters that are given. */
export function filtersOf<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const given = names.flatMap((name) => {
    const value = query.get(name)?.trim();
    return value ? [[name, value] as const] : [];
  });
  return Object.fromEntries(given) as Partial<Record<Name, string>>;
}
