/** The build that a run uses, twice: an upgrade puts one in the place of the other. */
import { rename, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Installation, installWeir } from '../../../helpers/installation.ts';

/** Changes a copy of the build, which then has a fault. */
export type Sabotage = (release: Installation) => Promise<void>;

/** Two copies of the build, and a link to one of them. */
export async function prepareReleases(folder: string, sabotage?: Sabotage) {
  const current = join(folder, 'current');
  let used = 0;
  const next = async () => {
    const link = `${current}-${++used}`;
    await symlink(`release-${used % 2}`, link);
    await rename(link, current);
  };
  for (const number of [0, 1]) {
    const release = await installWeir(join(folder, `release-${number}`));
    await sabotage?.(release);
  }
  await next();
  return { entry: join(current, 'dist/server/cli/weir.js'), next };
}
