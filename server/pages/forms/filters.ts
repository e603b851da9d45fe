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

const EMPTY_PARAMETER = /(?:^|&)[^&=]*=(?:&|$)/;

/**
 * The address without empty parameters; null if it has none. A browser without JavaScript sends each empty field of a filter, but the
 * URL is what users bookmark and share.
 */
export function tidyAddress({ path, query }: { path: string; query: string }): string | null {
  if (!EMPTY_PARAMETER.test(query)) return null;
  const given = query.split('&').filter((pair) => !EMPTY_PARAMETER.test(pair));
  return given.length === 0 ? path : `${path}?${given.join('&')}`;
}
