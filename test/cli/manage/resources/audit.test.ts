import { beforeAll, describe, expect, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startTestApp);
let agentId: string;
let webhookId: string;
beforeAll(async () => {
  webhookId = (await weirJson(app, 'webhook', 'add', '--name', 'orders', '--generate-secret')).id;
  agentId = (await weirJson(app, 'agent', 'add', '--name', 'ci')).id;
  await weir(app, 'agent', 'revoke', agentId);
});

describe('audit list', () => {
  test('prints the newest entries in a table', async () => {
    const { code, out } = await weir(app, 'audit', 'list');
    expect(code).toBe(0);
    const [head, ...lines] = out.trimEnd().split('\n');
    expect(head).toMatch(/^NUMBER +AT +WHO +FROM +ACTION +TARGET$/);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^3 +\d{4}-\S+Z +command \S+ +agent\.revoke +ci \([0-9a-f-]{36}\)$/);
    expect(lines[2]).toMatch(/webhook\.create +orders/);
  });

  test.each([
    ['--limit', () => ['--limit', '1'], ['agent.revoke']],
    ['--action', () => ['--action', 'agent.'], ['agent.revoke', 'agent.create']],
    ['--target', () => ['--target', webhookId], ['webhook.create']],
    ['--actor', () => ['--actor', webhookId], []],
    ['--from', () => ['--from', '2000-01-01T00:00:00Z', '--action', 'webhook'], ['webhook.create']],
    ['--to', () => ['--to', '2000-01-01T00:00:00Z'], []],
  ])('%s filters', async (_option, args, actions) => {
    const { items } = await weirJson(app, 'audit', 'list', ...args());
    expect(items.map((item: { action: string }) => item.action)).toEqual(actions);
  });

  test('reports an empty result', async () => {
    expect((await weir(app, 'audit', 'list', '--action', 'nothing')).out).toBe('No matching entries.\n');
  });
});

describe('audit verify', () => {
  test('reports that all entries are valid, and the head', async () => {
    const verdict = await weirJson(app, 'audit', 'verify');
    expect(verdict).toEqual({
      intact: true,
      entries: 3,
      head: { number: 3, hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    const { code, out, err } = await weir(app, 'audit', 'verify', '--head', verdict.head.hash.toUpperCase());
    expect([code, out, err]).toEqual([0, `All 3 entries are valid.\n  Head  ${verdict.head.hash}\n`, '']);
  });

  test('fails with a head that the chain does not contain', async () => {
    const { code, out, err } = await weir(app, 'audit', 'verify', '--head', 'ab'.repeat(32));
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/^weir: The chain does not contain the given head: .* Valid entries before it: 3\.\n$/);
  });

  test('fails and names the first invalid entry', async () => {
    await app.database.query({
      text: `begin; alter table audit_log disable trigger user;
             update audit_log set entry = '{"action":"nothing"}' where number = 2;
             alter table audit_log enable trigger user; commit`,
    });
    const { code, err } = await weir(app, 'audit', 'verify');
    expect([code, err]).toEqual([
      1,
      'weir: Entry 2 was changed: its hash does not match. Valid entries before it: 1.\n',
    ]);
    const reported = await weir(app, 'audit', 'verify', '--json');
    expect([reported.code, reported.err]).toEqual([1, '']);
    expect(JSON.parse(reported.out)).toMatchObject({ intact: false, entries: 1, first_broken: 2, head: { number: 1 } });
  });
});
