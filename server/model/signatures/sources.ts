/** Where a definition says that a value is: a header, an item of the signature header, or a member of the body. */

/** The name in `header:NAME`; null for another source. */
export function headerOf(source: string | undefined): string | null {
  return source?.startsWith('header:') ? source.slice('header:'.length) : null;
}

/** The name in `field:NAME`, an item of the signature header; null for another source. */
export function fieldOf(source: string | undefined): string | null {
  return source?.startsWith('field:') ? source.slice('field:'.length) : null;
}

/** The path of `json:/a/b`; null for another source. */
export function pointerOf(source: string | undefined): readonly string[] | null {
  if (!source?.startsWith('json:/')) return null;
  return source
    .slice('json:/'.length)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}
