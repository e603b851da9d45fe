import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

interface LockedPackage {
  version?: string;
  integrity?: string;
  resolved?: string;
}

const text = readFileSync(new URL('../../../package-lock.json', import.meta.url), 'utf8');
const { packages } = JSON.parse(text) as { packages: Record<string, LockedPackage> };
/** The entry '' is Weir itself. */
const installed = Object.entries(packages).filter(([path]) => path !== '');

describe('package-lock.json', () => {
  test('has the integrity of every package, including those of other platforms', () => {
    expect(installed.length).toBeGreaterThan(100);
    // npm installs an entry without one unchecked.
    const unchecked = installed.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''));
    expect(unchecked.map(([path]) => path)).toEqual([]);
  });

  test('names no registry: npm installs from the configured one', () => {
    expect(installed.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
  });
});
