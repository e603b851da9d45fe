export function addCoverageOfDist(
  root: string,
  report: string,
  folder: string,
): { lines: number; own: number; all: number };
