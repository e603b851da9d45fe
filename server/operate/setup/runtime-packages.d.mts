export const runtimePackages: string[];
export function pathsOf(names: readonly string[], packages: Record<string, object>): Set<string>;
export function isLoaded(path: string): boolean;
