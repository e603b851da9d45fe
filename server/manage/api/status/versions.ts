/** Versions of Weir and its runtime. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { release } from '../../../base/files/build.ts';

export function readVersions(): { weir: string; node: string; uwebsockets: string } {
  const uwebsockets = dirname(createRequire(import.meta.url).resolve('uWebSockets.js'));
  const { version } = JSON.parse(readFileSync(join(uwebsockets, 'package.json'), 'utf8')) as { version: string };
  return { weir: release(), node: process.versions.node, uwebsockets: version };
}
