/** What the tests see of debian.mjs. */
export function postgresServerFolder(): string | undefined;
export function hasEtcdClient(): boolean;
