/**
 * Mutation check: changes single lines of the code that must not be wrong, one at a time, and runs the tests of `npm test` that import
 * the changed file until one fails. `node test/tools/mutations.mjs [--seed N] [--count N]`; the same seed draws the same lines
 * of the same commit. Works on a copy of HEAD in a temporary directory. Exit code 1: less than three quarters of the changes were noticed.
 * A change is equivalent when the build has the same bytes with it.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { leaveCleanly, Refusal, run } from '../../server/operate/setup/run.mjs';
import { longTests } from './tiers.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Request path, claims, authentication, store. */
const parts = ['server/receive', 'server/base/http', 'server/deliver/claims', 'server/manage/auth', 'server/store'];
const noticedMin = 0.75;
/** Time limit of one run of tests: a change can make a loop that does not end. */
const secondsMax = 1_800;
const ENDED = 'a process of the tests that ended';
const ENDLESS = `tests that did not end within ${secondsMax} s`;

/** What a line contains, and what replaces it. */
const changes = [
  [/ === /, ' !== '],
  [/ !== /, ' === '],
  [/ <= /, ' < '],
  [/ >= /, ' > '],
  [/ < /, ' >= '],
  [/ > /, ' <= '],
  [/ && /, ' || '],
  [/ \|\| /, ' && '],
  [/ \+ /, ' - '],
  [/ - /, ' + '],
  [/\btrue\b/, 'false'],
  [/\bfalse\b/, 'true'],
  [/ and /, ' or '],
  [/ desc\b/, ' asc'],
  [/\bfor update( skip locked)?/, ''],
  // A statement that is a call.
  [/^\s+(await |void )?[#\w.]+\(.*\);$/, ''],
];

/** Linear congruential generator: numbers from 0 to 1, the same for the same seed. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Every change that is possible, in the order of files and lines. Comments, imports and types are left out. */
function candidates(folder) {
  const files = execFileSync('git', ['ls-files', ...parts], { cwd: folder, encoding: 'utf8' }).split('\n');
  return files
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) =>
      readFileSync(join(folder, file), 'utf8')
        .split('\n')
        .flatMap((line, index) => {
          if (/^\s*(\/?\*|\/\/|import\b|export type\b|type\b|interface\b|[\w?]+: [^=({[]*;$|\|)|=> \w+;$/.test(line))
            return [];
          return changes.flatMap(([from, to]) =>
            from.test(line) ? [{ file, index, line, changed: line.replace(from, to) }] : [],
          );
        }),
    );
}

async function main() {
  const { values } = parseArgs({ options: { seed: { type: 'string' }, count: { type: 'string', default: '20' } } });
  const seed = Number(values.seed ?? Date.now() % 100_000);
  const copy = mkdtempSync(join(tmpdir(), 'weir-mutations-'));
  try {
    execFileSync('git', ['clone', '--quiet', root, copy]);
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const unchanged = await build(copy);
    const all = candidates(copy);
    const drawn = draw(all, Number(values.count), generator(seed));
    console.log(`Seed ${seed}: ${drawn.length} of ${all.length} changes.`);
    const counts = { noticed: 0, missed: 0, equivalent: 0 };
    const files = new Set();
    for (const one of drawn) {
      const { outcome, test = '' } = await tryOut(copy, one, unchanged);
      counts[outcome] += 1;
      if (test.startsWith('test/')) files.add(fileOf(test));
      console.log(`${outcome} ${one.file}:${one.index + 1} ${test && `by ${test}`}`.trim());
      console.log(`  - ${one.line.trim()}\n  + ${one.changed.trim()}`);
    }
    const { noticed, missed, equivalent } = counts;
    console.log(`${drawn.length} tried, ${noticed} noticed, ${missed} missed, ${equivalent} equivalent`);
    await build(copy);
    const failed = files.size > 0 ? await vitest(copy, ['run', ...files], longTests) : null;
    if (failed !== null) throw new Refusal(`a test that noticed a change fails without it as well: ${failed}`);
    return noticed >= drawn.length * noticedMin ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Draws `count` different elements. */
function draw(all, count, random) {
  const drawn = new Set();
  while (drawn.size < Math.min(count, all.length)) drawn.add(all[Math.floor(random() * all.length)]);
  return [...drawn];
}

/** Builds dist/, from which some tests start processes, and returns the hash of its code. */
async function build(folder) {
  const { code, output } = await run('npm', ['run', 'build'], { cwd: folder, quiet: true });
  if (code !== 0) throw new Refusal(`npm run build fails in the copy: ${output}`);
  const hash = createHash('sha256');
  const paths = readdirSync(join(folder, 'dist'), { recursive: true }).filter((path) => path.endsWith('.js'));
  for (const path of paths.sort()) hash.update(path).update(readFileSync(join(folder, 'dist', path)));
  return hash.digest('hex');
}

/** `{ outcome, test }`: the outcome is a key of the counts; `test` is the test that noticed the change. */
async function tryOut(folder, { file, index, changed }, unchanged) {
  const path = join(folder, file);
  const original = readFileSync(path, 'utf8');
  const lines = original.split('\n');
  lines[index] = changed;
  writeFileSync(path, lines.join('\n'));
  try {
    if ((await build(folder)) === unchanged) return { outcome: 'equivalent' };
    const near = dirname(file).replace('server', 'test');
    const excluded = [...longTests];
    // Tests of the same folder run first, then all that import the file.
    for (const tests of [...(existsSync(join(folder, near)) ? [['run', near]] : []), ['related', '--run', file]]) {
      const test = await failsTwice(folder, tests, excluded);
      if (test !== null) return { outcome: 'noticed', test };
    }
    return { outcome: 'missed' };
  } finally {
    writeFileSync(path, original);
  }
}

/** The first of the tests that fails, and fails again in a second run of its file; null when none does. Adds the others to `excluded`. */
async function failsTwice(folder, tests, excluded) {
  for (;;) {
    const failed = await vitest(folder, tests, excluded);
    if (failed === null) return null;
    const hasFile = failed !== ENDED && failed !== ENDLESS;
    if ((await vitest(folder, hasFile ? ['run', fileOf(failed)] : tests, longTests)) !== null) return failed;
    console.log(`not reproduced: ${failed}`);
    if (!hasFile) return null;
    excluded.push(fileOf(failed));
  }
}

function fileOf(test) {
  return test.split(/ > | \[ /, 1)[0];
}

/** Name of the first test that fails, with its file; null when all pass, or none is found. */
async function vitest(folder, tests, excluded) {
  const program = join(folder, 'node_modules/vitest/vitest.mjs');
  const options = ['--config', 'test/vitest.config.ts', '--bail=1', '--passWithNoTests'];
  const left = excluded.flatMap((pattern) => ['--exclude', pattern]);
  const env = { ...process.env, NO_COLOR: '1' };
  const limited = ['--kill-after=30', `${secondsMax}`, process.execPath, program, ...tests, ...options, ...left];
  const { code, output } = await run('timeout', limited, { cwd: folder, env, quiet: true });
  if (code === 0) return null;
  if (code === 124) return ENDLESS;
  const failed = /FAIL\s+(.*)/.exec(output)?.[1];
  if (failed === undefined && !/Tests .*passed/.test(output)) throw new Refusal(`no test ran: ${output}`);
  return failed ?? ENDED;
}

await leaveCleanly(main);
