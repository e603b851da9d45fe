/** Versions of Weir and its runtime. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/** `weir` is null if no package.json of Weir is found. */
export function readVersions(): { weir: string | null; node: string; uwebsockets: string | null } {
  return {
    weir: versionAbove(import.meta.dirname, 'weir'),
    node: process.versions.node,
    uwebsockets: versionAbove(dirname(require.resolve('uWebSockets.js'))),
  };
}

/** Version in the nearest package.json at or above a directory; with `name`, the nearest one with this name. */
function versionAbove(directory: string, name?: string): string | null {
  for (let step = directory; ; step = dirname(step)) {
    try {
      const found = JSON.parse(readFileSync(join(step, 'package.json'), 'utf8')) as { name: string; version: string };
      if (name === undefined || found.name === name) return found.version;
    } catch {
      // No package.json in this directory.
    }
    if (dirname(step) === step) return null;
  }
}
