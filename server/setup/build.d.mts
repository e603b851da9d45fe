/** What the tests see of build.mjs. */
export function bundle(
  root: string,
  entries: readonly string[],
): Promise<{ path: string; content: string | Uint8Array }[]>;
