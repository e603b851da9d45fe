/** List filters. They are in the URL, so that a list can be bookmarked, shared and reached by the back button. */

/** Returns the named parameters that are present. */
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
