/**
 * Runs the checks and the tests; needs a finished setup: `node test/tools/run-tests.mjs [--all] [vitest arguments]`, e.g. --coverage.
 * Without `--all` and without names of files, the long tests are left out. The last line is `N passed, N failed, N skipped`; the exit
 * code is 0 only when nothing failed. When few files failed of all, they run once more, alone: those that pass then are named as unsteady.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { leaveCleanly, run } from '../../server/operate/setup/run.mjs';
import { addCoverageOfDist } from './coverage.mjs';
import { longTests } from './tiers.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const vitest = join(root, 'node_modules/vitest/vitest.mjs');
/** More failed files than these are no accident of a busy machine. */
const unsteadyMax = 5;

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
    const coverage = args.includes('--coverage');
    const ofDist = join(folder, 'coverage');
    if (coverage) prepareCoverage(ofDist);
    const env = { ...process.env, ...(coverage && { COVERAGE_OF_DIST: ofDist }) };
    const first = await runVitest(join(folder, 'first.json'), [...left, ...args], env);
    if (coverage) printCoverage(ofDist);
    const failed = first.files.filter(({ status }) => status === 'failed').map(({ name }) => relative(root, name));
    if (namesFiles || coverage || failed.length === 0 || failed.length > unsteadyMax) return conclude(first);
    console.log(`\nOnce more, alone: ${failed.join(', ')}`);
    const second = await runVitest(join(folder, 'second.json'), [...args, ...failed], env);
    if (second.code === 0)
      console.log(`\nUnsteady, failed beside the other tests and passed alone: ${failed.join(', ')}`);
    const files = new Map([...first.files, ...second.files].map((file) => [file.name, file]));
    return conclude({ code: second.code, files: [...files.values()] });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Resolves to the exit code of vitest and the files of its report. Without a report, it ended before the first test and printed the reason. */
async function runVitest(report, args, env) {
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const options = ['run', '--config', 'test/vitest.config.ts', ...reporters, ...args];
  const { code } = await run(process.execPath, [vitest, ...options], { cwd: root, env });
  return { code, files: existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [] };
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

/** Prints the counts and returns the code. A file that cannot be loaded, or an error outside of a test, counts as a failure. */
function conclude({ code, files }) {
  const unloaded = files.filter(({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0);
  const count = { passed: 0, failed: unloaded.length, skipped: 0 };
  for (const { status } of files.flatMap(({ assertionResults }) => assertionResults))
    count[status === 'passed' || status === 'failed' ? status : 'skipped'] += 1;
  const failed = code === 0 ? count.failed : Math.max(count.failed, 1);
  console.log(`\n${count.passed} passed, ${failed} failed, ${count.skipped} skipped`);
  return code;
}

await leaveCleanly(() => test(process.argv.slice(2)));
