/** Which Weir this is, and on what it runs. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/** `weir` is null when no package.json says so. */
export function readVersions(): { weir: string | null; node: string; uwebsockets: string | null } {
  return {
    weir: versionAbove(import.meta.dirname, 'weir'),
    node: process.versions.node,
    uwebsockets: versionAbove(dirname(require.resolve('uWebSockets.js'))),
  };
}

/** Of the nearest package.json at or above a directory, or the nearest of this name. */
function versionAbove(directory: string, name?: string): string | null {
  for (let step = directory; ; step = dirname(step)) {
    try {
      const found = JSON.parse(readFileSync(join(step, 'package.json'), 'utf8')) as { name: string; version: string };
      if (name === undefined || found.name === name) return found.version;
    } catch {
      // There is none here.
    }
    if (dirname(step) === step) return null;
  }
}
