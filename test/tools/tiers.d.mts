/** What the tests see of tiers.mjs. */
export function isLong(path: string): boolean;
