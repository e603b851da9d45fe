/** What the tests see of server-binary.mjs. */
export const serverBinaryRelease: string;
export const serverBinaryHashes: Record<string, string>;
export function serverBinaryProblem(root: string): string | null;
