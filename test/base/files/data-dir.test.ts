import { chmodSync, chownSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { createDataDir, createDirectories } from '../../../server/base/files/data-dir.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

const OTHER_USER = 65_534;

test('directories are created in one that this user can write to, but not list', () => {
  const above = join(temporaryDirectory(), 'above');
  mkdirSync(above);
  if (process.getuid!() === 0) {
    chownSync(above, OTHER_USER, OTHER_USER);
    chmodSync(dirname(above), 0o711);
    process.seteuid!(OTHER_USER);
  }
  try {
    chmodSync(above, 0o300);
    createDataDir(join(above, 'data'));
    createDirectories(join(above, 'spool', 'one'));
    expect(['data', 'spool/one'].map((name) => existsSync(join(above, name)))).toEqual([true, true]);
  } finally {
    process.seteuid!(process.getuid!());
  }
});
