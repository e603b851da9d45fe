/**
 * Runs the checks and the tests; needs a finished setup: `node test/tools/run-tests.mjs [--all] [vitest arguments]`, e.g. --coverage.
 * Without `--all` and without names of files, the long tests are left out. The last line is `N passed, N failed, N skipped`; the exit
 * code is 0 only when nothing failed.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { leaveCleanly, run } from '../../server/operate/setup/run.mjs';
import { addCoverageOfDist } from './coverage.mjs';
import { longTests } from './tiers.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const vitest = join(root, 'node_modules/vitest/vitest.mjs');

async function test([first, ...others]) {
  const all = first === '--all';
  const args = all || first === undefined ? others : [first, ...others];
  const namesFiles = args.some((arg) => !arg.startsWith('-'));
  const left = all || namesFiles ? [] : longTests.flatMap((pattern) => ['--exclude', pattern]);
  const { code: checks } = await run('npm', ['run', '--silent', 'check'], { cwd: root });
  if (checks !== 0) {
    console.error('The checks of types, lint or format failed (npm run format fixes the format); no test was run.');
    console.log('0 passed, 1 failed, 0 skipped');
    return checks;
  }
  const folder = mkdtempSync(join(tmpdir(), 'weir-test-'));
  try {
    const report = join(folder, 'report.json');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    const options = ['run', '--config', 'test/vitest.config.ts', ...reporters, ...left, ...args];
    const coverage = args.includes('--coverage');
    const ofDist = join(folder, 'coverage');
    if (coverage) prepareCoverage(ofDist);
    const env = { ...process.env, ...(coverage && { COVERAGE_OF_DIST: ofDist }) };
    const { code } = await run(process.execPath, [vitest, ...options], { cwd: root, env });
    if (coverage) printCoverage(ofDist);
    console.log(`\n${summary(report, code)}`);
    return code;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Each process writes there, and serving processes run as another user when root starts them. */
function prepareCoverage(folder) {
  chmodSync(dirname(folder), 0o711);
  mkdirSync(folder);
  chmodSync(folder, 0o1777);
}

function printCoverage(folder) {
  const report = join(root, 'coverage/lcov.info');
  // vitest removes the report of the last run at its start, and writes none when it ends early.
  if (!existsSync(report)) return;
  const { lines, own, all } = addCoverageOfDist(root, report, folder);
  const percent = (count) => `${((count / lines) * 100).toFixed(1)} %`;
  console.log(
    `\nLines that ran: ${percent(all)} of ${lines}; ${percent(own)} in the processes of the tests themselves`,
  );
}

/** Counts tests. A file that cannot be loaded, or an error outside of a test, counts as a failure. */
function summary(report, code) {
  const { passed, failed, skipped } = count(report);
  return `${passed} passed, ${code === 0 ? failed : Math.max(failed, 1)} failed, ${skipped} skipped`;
}

function count(report) {
  try {
    const totals = JSON.parse(readFileSync(report, 'utf8'));
    const unloaded = totals.testResults.filter(
      (file) => file.status === 'failed' && file.assertionResults.length === 0,
    );
    return {
      passed: totals.numPassedTests,
      failed: totals.numFailedTests + unloaded.length,
      skipped: totals.numPendingTests + totals.numTodoTests,
    };
  } catch (error) {
    // No report: vitest ended before the first test and has printed the reason.
    if (error.code !== 'ENOENT') throw error;
    return { passed: 0, failed: 0, skipped: 0 };
  }
}

await leaveCleanly(() => test(process.argv.slice(2)));
