import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { commandOn } from '../../../server/base/command/name.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

let directory: string;
let entry: string;
beforeEach(() => {
  directory = temporaryDirectory();
  entry = join(directory, 'weir.js');
  writeFileSync(entry, '');
  for (const name of ['empty', 'link', 'other']) mkdirSync(join(directory, name));
  symlinkSync(entry, join(directory, 'link/weir'));
  writeFileSync(join(directory, 'other/weir'), '');
  mkdirSync(join(directory, 'node_modules/.bin'), { recursive: true });
  symlinkSync(entry, join(directory, 'node_modules/.bin/weir'));
});

test.each([
  [['empty', 'link'], 'weir'],
  [['link', 'other'], 'weir'],
  [['other', 'link'], 'npx --no weir'],
  [['empty', 'missing'], 'npx --no weir'],
  // As npx sets it: the shell has neither.
  [['node_modules/.bin', 'empty'], 'npx --no weir'],
  [['node_modules/.bin', 'link'], 'weir'],
])('with %j on the PATH the command is %s', (names, command) => {
  expect(commandOn(names.map((name) => join(directory, name)).join(':'), entry)).toBe(command);
});

test('without a build the command line is called by npx --no weir', () => {
  rmSync(entry);
  expect(commandOn(join(directory, 'link'), entry)).toBe('npx --no weir');
});
