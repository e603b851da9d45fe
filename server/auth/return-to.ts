/** Where a browser goes after it signed in. */

const RETURN_TO_CHARACTERS_MAX = 1_024;

/**
 * The address on our own origin that `path` stands for, absolute, so that it cannot be read as another's; the first page when
 * it stands for none. A browser drops tabs and line ends, and takes `\` for `/`: the WHATWG URL parser does the same.
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
