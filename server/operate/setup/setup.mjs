/**
 * Prepares this folder to run: `node server/operate/setup/setup.mjs [--tests]`. It has no dependencies, since it installs them. When nothing
 * is to be done, it ends in a fraction of a second.
 */
import { fileURLToPath } from 'node:url';
import { build } from './build.mjs';
import { readFacts } from './facts.mjs';
import { addSystemUser, installModules, installPackages } from './install.mjs';
import { withLock } from './lock.mjs';
import { planSetup } from './plan.mjs';
import { leaveCleanly, Refusal } from './run.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));

const perform = {
  packages: (step) => installPackages(step),
  user: () => addSystemUser(),
  install: (step) => installModules(root, step),
  build: () => build(root),
};

async function setUp(args) {
  const unknown = args.find((argument) => argument !== '--tests');
  if (unknown !== undefined)
    throw new Refusal(`${unknown} is not an option of the set-up; the only option is --tests.`, 2);
  const tests = args.length > 0;
  if (decide(tests).length === 0) return;
  try {
    await withLock(root, async () => {
      // Decide again: the previous holder of the lock has probably done all steps.
      for (const step of decide(tests)) await perform[step.kind](step);
    });
  } catch (error) {
    if (error.code !== 'EACCES' && error.code !== 'EPERM') throw error;
    throw new Refusal(
      `${error.path} belongs to another user, probably root. Remove it (sudo rm -rf dist node_modules) and try again.`,
    );
  }
}

function decide(tests) {
  const plan = planSetup(readFacts(root, tests));
  if (plan.kind === 'refuse') throw new Refusal(plan.sentence);
  return plan.steps;
}

await leaveCleanly(() => setUp(process.argv.slice(2)));
