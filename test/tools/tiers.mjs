/** Which tests `npm test` leaves out: faults, journeys in a browser, and files that start many processes or send many requests. */
const longFolders = ['test/faults/', 'test/browser/'];
const longEnding = '.long.test.ts';

/** The files that only `npm run test:all` runs, as patterns of vitest. */
export const longTests = [...longFolders.map((folder) => `${folder}**`), `**/*${longEnding}`];

/** @param path of a test file, from the root of the project, with slashes */
export function isLong(path) {
  return longFolders.some((folder) => path.startsWith(folder)) || path.endsWith(longEnding);
}
