/**
 * Mutation check: changes single lines of the code that must not be wrong, one at a time, and runs the tests of `npm test` that import
 * the changed file until one fails. `node server/operate/setup/mutations.mjs [--seed N] [--count N]`; the same seed draws the same lines
 * of the same commit. Works on a copy of HEAD in a temporary directory. Exit code 1: less than three quarters of the changes were noticed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { leaveCleanly, Refusal, run } from './run.mjs';
import { longTests } from './tiers.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
/** Request path, claims, authentication, store. */
const parts = ['server/receive', 'server/base/http', 'server/deliver/claims', 'server/manage/auth', 'server/store'];
const caughtMin = 0.75;
const ENDED = 'a process of the tests that ended';

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
    const random = generator(seed);
    const all = candidates(copy);
    const drawn = Array.from({ length: Number(values.count) }, () => all[Math.floor(random() * all.length)]);
    console.log(`Seed ${seed}: ${drawn.length} of ${all.length} changes.`);
    let caught = 0;
    for (const one of drawn) {
      const failed = await failsWith(copy, one);
      if (failed !== null) caught += 1;
      console.log(
        `${failed === null ? 'MISSED' : 'caught'} ${one.file}:${one.index + 1}${failed === null ? '' : ` by ${failed}`}`,
      );
      console.log(`  - ${one.line.trim()}\n  + ${one.changed.trim()}`);
    }
    console.log(`${caught} of ${drawn.length} changes were noticed.`);
    return caught >= drawn.length * caughtMin ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/**
 * The first test that fails with this change, and fails again in a second run of its file; null when all pass. Tests of the same folder
 * run first, then all that import the file.
 */
async function failsWith(folder, { file, index, changed }) {
  const path = join(folder, file);
  const original = readFileSync(path, 'utf8');
  const lines = original.split('\n');
  lines[index] = changed;
  writeFileSync(path, lines.join('\n'));
  try {
    // Some tests start processes from dist/.
    const built = await run(process.execPath, ['server/operate/setup/build.mjs'], { cwd: folder, quiet: true });
    if (built.code !== 0) throw new Refusal(`npm run build fails in the copy: ${built.output}`);
    const near = dirname(file).replace('server', 'test');
    const excluded = [...longTests];
    for (const tests of [...(existsSync(join(folder, near)) ? [['run', near]] : []), ['related', '--run', file]])
      for (
        let failed = await vitest(folder, tests, excluded);
        failed !== null;
        failed = await vitest(folder, tests, excluded)
      ) {
        const test = failed.split(/ > | \[ /, 1)[0];
        const again = failed === ENDED ? tests : ['run', test];
        if ((await vitest(folder, again, longTests)) !== null) return failed;
        console.log(`not reproduced: ${failed}`);
        if (failed === ENDED) break;
        excluded.push(test);
      }
    return null;
  } finally {
    writeFileSync(path, original);
  }
}

/** Name of the first test that fails, with its file; null when all pass, or none is found. */
async function vitest(folder, tests, excluded) {
  const program = join(folder, 'node_modules/vitest/vitest.mjs');
  const options = ['--config', 'test/vitest.config.ts', '--bail=1', '--passWithNoTests'];
  const left = excluded.flatMap((pattern) => ['--exclude', pattern]);
  const env = { ...process.env, NO_COLOR: '1' };
  const { code, output } = await run(process.execPath, [program, ...tests, ...options, ...left], {
    cwd: folder,
    env,
    quiet: true,
  });
  if (code === 0) return null;
  const failed = /FAIL\s+(.*)/.exec(output)?.[1];
  if (failed === undefined && !/Tests .*passed/.test(output)) throw new Refusal(`no test ran: ${output}`);
  return failed ?? ENDED;
}

await leaveCleanly(main);
