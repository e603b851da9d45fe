/** What the tests see of sources.mjs. */
export function stateOfDist(root: string, options?: { named?: boolean }): 'missing' | 'outdated' | 'fresh';
export const recipe: readonly string[];
