import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../helpers/settings.ts';
import { addCoverageOfDist } from './coverage.mjs';

const source = `export function used(name: string): string {
  if (name === '') return 'nobody';
  return name;
}
export function unused(): number {
  return 1;
}
console.log(used('a'), typeof unused);
`;

test('lines that only a process from dist/ ran are added to the report of the tests', async () => {
  const root = temporaryDirectory();
  writeFileSync(join(root, 'package.json'), '{ "type": "module" }');
  mkdirSync(join(root, 'server'));
  writeFileSync(join(root, 'server/main.ts'), source);
  const bundle = await rolldown({ cwd: root, input: { 'server/main': 'server/main.ts' } });
  await bundle.write({ dir: 'dist', sourcemap: true });
  const folder = join(root, 'coverage');
  const env = { ...process.env, NODE_V8_COVERAGE: folder };
  for (let runs = 0; runs < 2; runs++)
    expect(spawnSync(process.execPath, [join(root, 'dist/server/main.js')], { env }).status).toBe(0);
  const report = join(root, 'lcov.info');
  // Line 2 ran in a test, lines 3 and 8 in the process, line 6 nowhere. No process loaded other.ts.
  writeFileSync(
    report,
    'SF:server/main.ts\nDA:2,7\nDA:3,0\nDA:6,0\nDA:8,0\nLF:4\nLH:1\nend_of_record\nSF:server/other.ts\nDA:3,0\nLF:1\nLH:0\nend_of_record\n',
  );
  expect(addCoverageOfDist(root, report, folder)).toEqual({ lines: 5, own: 1, all: 3 });
  expect(readFileSync(report, 'utf8')).toBe(
    'SF:server/main.ts\nDA:2,7\nDA:3,1\nDA:6,0\nDA:8,1\nLF:4\nLH:3\nend_of_record\nSF:server/other.ts\nDA:3,0\nLF:1\nLH:0\nend_of_record\n',
  );
});
