/** How a person runs a command of the client on any machine, for output that names one. */
import { dirname } from 'node:path';
import type { CommandIo } from '../../base/command/io.ts';
import { builtFile } from '../../base/files/build.ts';
import { ClientPackage } from '../../base/http/client-package.ts';
import type { Settings } from '../../base/settings/read.ts';

/** @returns such as `npx https://weir.example.org/client-1.0.0-5f1c0e9a7b3d.tgz` */
export function clientCommand(
  { workers = builtFile('workers') }: Pick<CommandIo, 'workers'>,
  { PUBLIC_URL }: Pick<Settings, 'PUBLIC_URL'>,
): string {
  return new ClientPackage(PUBLIC_URL, dirname(workers)).command;
}
