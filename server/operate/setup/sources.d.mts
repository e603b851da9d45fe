/** What the tests see of sources.mjs. */
export function stateOfDist(root: string): 'missing' | 'outdated' | 'fresh';
export const recipe: readonly string[];
