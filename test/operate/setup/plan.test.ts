import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readFacts } from '../../../server/operate/setup/facts.mjs';
import { type Facts, planSetup } from '../../../server/operate/setup/plan.mjs';

const required = [
  'apt-get',
  'pg_config',
  'libpq-fe.h',
  'g++',
  'make',
  'python3',
  'pg_dump',
  'redis-server',
  'prometheus',
  'promtool',
  'faketime',
  'chromium-headless-shell',
  'pgbouncer',
];
const optional = ['patroni', 'python3-etcd', 'etcd', 'postgres', 'haproxy', 'nginx', 'ip', 'nft'];
const tools = [...required, ...optional];
const optionalStep = (sudo: boolean) => ({
  kind: 'packages',
  packages: ['patroni', 'python3-etcd', 'etcd-server', 'postgresql', 'haproxy', 'nginx-light', 'iproute2', 'nftables'],
  sudo,
  optional: true,
});

/** A Debian 12 with everything installed; each test removes something. */
function machine(different: Partial<Facts> = {}): Facts {
  return {
    tests: false,
    platform: 'linux',
    arch: 'x64',
    nodeVersion: '20.20.2',
    glibc: '2.36',
    uid: 1000,
    canSudo: () => false,
    found: tools,
    wanted: 'this lock',
    installed: 'this lock',
    binaryProblem: null,
    dist: 'fresh',
    weirUser: false,
    ...different,
  };
}

const bare = { found: ['apt-get'], installed: '', dist: 'missing' } as const satisfies Partial<Facts>;

function stepsOn(facts: Facts) {
  const plan = planSetup(facts);
  if (plan.kind === 'refuse') throw new Error(plan.sentence);
  return plan.steps;
}

function refusalOn(facts: Facts): string {
  const plan = planSetup(facts);
  if (plan.kind === 'do') throw new Error(`not refused: ${JSON.stringify(plan.steps)}`);
  return plan.sentence;
}

describe('the plan', () => {
  test('is empty when everything is installed, without sudo', () => {
    const canSudo = () => {
      throw new Error('asked');
    };
    expect(stepsOn(machine({ canSudo }))).toEqual([]);
    expect(stepsOn(machine({ canSudo, tests: true }))).toEqual([]);
  });

  test('is complete and in order for root on an empty machine', () => {
    expect(stepsOn(machine({ ...bare, found: ['apt-get'], uid: 0, tests: true }))).toEqual([
      {
        kind: 'packages',
        packages: [
          'libpq-dev',
          'build-essential',
          'python3',
          'postgresql-client',
          'redis-server',
          'prometheus',
          'faketime',
          'chromium-headless-shell',
          'pgbouncer',
        ],
        sudo: false,
        optional: false,
      },
      optionalStep(false),
      { kind: 'user' },
      { kind: 'install', wanted: 'this lock' },
      { kind: 'build' },
    ]);
  });

  test.each([
    { missing: 'pg_config', packages: ['libpq-dev'] },
    { missing: 'libpq-fe.h', packages: ['libpq-dev'] },
    { missing: 'g++', packages: ['build-essential'] },
    { missing: 'make', packages: ['build-essential'] },
    { missing: 'python3', packages: ['python3'] },
  ])('without $missing, installs $packages before npm packages', ({ missing, packages }) => {
    const found = tools.filter((tool) => tool !== missing);
    const [first] = stepsOn(machine({ found, installed: 'another lock', uid: 0, weirUser: true }));
    expect(first).toEqual({ kind: 'packages', packages, sudo: false, optional: false });
  });

  test('has no compiler once the npm packages are installed', () => {
    expect(stepsOn(machine({ found: [], dist: 'outdated' }))).toEqual([{ kind: 'build' }]);
  });

  test('has the packages of some tests where they can be installed, and continues without them elsewhere', () => {
    const facts = { found: required, tests: true };
    expect(stepsOn(machine({ ...facts, canSudo: () => true }))).toEqual([optionalStep(true)]);
    expect(stepsOn(machine({ ...facts, canSudo: () => false }))).toEqual([]);
    expect(stepsOn(machine({ ...facts, uid: 0, weirUser: true, found: required.slice(1) }))).toEqual([]);
    expect(stepsOn(machine({ found: required, canSudo: () => true }))).toEqual([]);
  });

  test.each([
    { name: 'root', facts: { uid: 0 }, added: true },
    { name: 'root when the user is there', facts: { uid: 0, weirUser: true }, added: false },
    { name: 'other users', facts: { uid: 1000 }, added: false },
  ])('has a system user for $name: $added', ({ facts, added }) => {
    expect(stepsOn(machine(facts))).toEqual(added ? [{ kind: 'user' }] : []);
  });
});

describe('the set-up refuses', () => {
  test('an unknown binary of uWebSockets.js, unless it is about to be installed again', () => {
    const binaryProblem = 'the binary was changed';
    expect(refusalOn(machine({ binaryProblem }))).toBe(binaryProblem);
    expect(stepsOn(machine({ binaryProblem, installed: 'another lock' }))).toEqual([
      { kind: 'install', wanted: 'this lock' },
    ]);
  });

  test('a missing compiler without sudo, with the command to run', () => {
    const found = tools.filter((tool) => tool !== 'g++');
    expect(refusalOn(machine({ found, installed: '' }))).toBe(
      'Weir needs g++, and may not install packages here (neither root nor passwordless sudo). Run this once, then try again:\n' +
        '  sudo apt-get update && sudo apt-get install -y --no-install-recommends build-essential',
    );
  });

  test('a missing compiler without apt-get, even for root', () => {
    expect(refusalOn(machine({ found: ['python3', 'make'], installed: '', uid: 0 }))).toBe(
      'Weir needs pg_config, libpq-fe.h, g++, and this system has no apt-get. ' +
        'Install the equivalents of the Debian packages libpq-dev, build-essential and try again.',
    );
  });

  test.each([
    { name: 'macOS', facts: { platform: 'darwin', arch: 'arm64' }, says: 'this is darwin on arm64' },
    { name: 'a 32-bit machine', facts: { arch: 'arm' }, says: 'this is linux on arm' },
    { name: 'musl', facts: { glibc: null }, says: 'Weir needs glibc' },
    { name: "Debian 12's own Node", facts: { nodeVersion: '18.20.4' }, says: 'this is 18.20.4. Install Node 20 ' },
    { name: 'an early Node 20', facts: { nodeVersion: '20.18.3' }, says: '20.19 or newer' },
    { name: 'an early Node 22', facts: { nodeVersion: '22.11.0', glibc: '2.41' }, says: '22.12 or newer' },
    { name: 'an odd Node on Debian 13', facts: { nodeVersion: '23.1.0', glibc: '2.41' }, says: 'Install Node 24' },
    { name: 'Node 24 on Debian 12', facts: { nodeVersion: '24.1.0' }, says: 'this system has 2.36. Use Node 20, or ' },
    { name: 'Node 20 on a very old system', facts: { glibc: '2.26' }, says: 'has 2.26. Use the container image.' },
  ])('$name, before anything else', ({ facts, says }) => {
    expect(refusalOn(machine({ ...bare, found: ['apt-get'], ...facts }))).toContain(says);
  });

  test.each([
    { nodeVersion: '20.19.0', glibc: '2.27' },
    { nodeVersion: '22.12.0', glibc: '2.38' },
    { nodeVersion: '24.11.0', glibc: '2.41', arch: 'arm64' },
    { nodeVersion: '25.0.0', glibc: '3.0' },
  ])('but not Node $nodeVersion on glibc $glibc', (facts) => {
    expect(stepsOn(machine(facts))).toEqual([]);
  });
});

test('on the machine that runs the tests, which have what they need, no package is asked for', () => {
  const plan = planSetup(readFacts(resolve(import.meta.dirname, '../../..'), true));
  if (plan.kind === 'refuse') throw new Error(plan.sentence);
  expect(plan.steps.filter((step) => step.kind === 'packages' && !step.optional)).toEqual([]);
});
