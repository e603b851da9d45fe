/** The page to open after sign-in. */

const RETURN_TO_CHARACTERS_MAX = 1_024;

/**
 * Returns the absolute URL of `path` on Weir's own origin, or the first page when `path` is not a path on this origin. Absolute,
 * so that it cannot be read as a URL of another origin. A browser drops tabs and line ends and reads `\` as `/`; the WHATWG URL
 * parser does the same.
 */
export function returnAddress(path: string | null | undefined, publicUrl: string): string {
  const first = `${publicUrl}/`;
  if (!path?.startsWith('/')) return first;
  try {
    const { href, origin } = new URL(path, first);
    return origin === publicUrl && href.length <= RETURN_TO_CHARACTERS_MAX ? href : first;
  } catch {
    return first;
  }
}
