import { describe, expect, test } from 'vitest';
import { runChecks } from '../../../server/model/check.ts';
import { type MachineFacts, machineChecks, readMachine } from '../../../server/operate/doctor/examine.ts';

const good: MachineFacts = {
  node: '24.1.0',
  glibc: '2.41',
  binaryError: null,
  migrateReq: '1\n',
  somaxconn: '4096\n',
  limits: 'Max open files            65536                65536                files     \n',
};
const notOk = async (facts: Partial<MachineFacts>) =>
  (await runChecks(machineChecks, { ...good, ...facts })).flatMap(({ name, state }) =>
    state === 'ok' ? [] : [`${name} ${state}`],
  );

describe('the doctor checks the machine', () => {
  test.each<[string, Partial<MachineFacts>, string[]]>([
    ['a good one', {}, []],
    ['one where the binary does not load', { glibc: '2.31', binaryError: 'GLIBC_2.38 not found' }, ['node problem']],
    ['one without glibc', { glibc: null, binaryError: 'no such file' }, ['node problem']],
    [
      'few open files',
      { limits: 'Max open files            1024                 1024                 files' },
      ['open_files advice'],
    ],
    [
      'just enough open files',
      { limits: 'Max open files            8192                 8192                 files' },
      [],
    ],
    [
      'open files without limit',
      { limits: 'Max open files            unlimited            unlimited            files' },
      [],
    ],
    ['a short backlog', { somaxconn: '128\n' }, ['somaxconn advice']],
    ['a kernel that may migrate and does not', { migrateReq: '0\n' }, ['tcp_migrate_req advice']],
    ['a kernel that cannot migrate', { migrateReq: null }, ['tcp_migrate_req advice']],
  ])('%s', async (_, facts, expected) => {
    expect(await notOk(facts)).toEqual(expected);
  });

  test('this machine can run Weir', async () => {
    const facts = await readMachine();
    expect(facts.binaryError).toBeNull();
    expect(facts.glibc).toMatch(/^2\.\d+$/);
    expect(facts.limits).toContain('Max open files');
  });
});
