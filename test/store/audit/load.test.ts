/** Many concurrent changes: each is added to the one chain, without a deadlock. */
import { beforeAll, expect, test } from 'vitest';
import { verifyAudit } from '../../../server/store/audit/verify.ts';
import { agentsOf } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
const second = shared(() => startTestApp({}, app));
let people: TestPerson[];
beforeAll(async () => {
  people = await Promise.all(Array.from({ length: 5 }, () => addPerson(app, 'operator')));
});

const CHANGES = 50;

test('50 concurrent changes, at two processes and to two kinds of resources, write 50 entries of one chain', async () => {
  const agents = agentsOf(app);
  const before = (await verifyAudit(app.database, null)).entries;
  await Promise.all(
    Array.from({ length: CHANGES }, async (_, i) => {
      if (i % 10 === 0) return void (await agents.add({ name: `agent ${i}`, webhook_ids: [] }));
      const { token } = people[i % people.length]!;
      const { status } = await fetch(`${(i % 2 === 0 ? app : second).url}/api/v1/tokens`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify({ name: `token ${i}`, role: 'viewer' }),
      });
      // In a deadlock, Postgres would end one of the two transactions.
      expect(status).toBe(201);
    }),
  );
  expect(await verifyAudit(app.database, null)).toMatchObject({ intact: true, entries: before + CHANGES });
});

test('a token that is revoked concurrently has one entry', async () => {
  const [person] = people;
  const { body } = await person!.api('POST', '/api/v1/tokens', { name: 'popular', role: 'viewer' });
  const before = (await verifyAudit(app.database, null)).entries;
  const answers = await Promise.all(
    Array.from({ length: 12 }, () => person!.api('DELETE', `/api/v1/tokens/${body.id}`)),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([204]));
  expect((await verifyAudit(app.database, null)).entries).toBe(before + 1);
});

test('a failed change leaves no entry and no gap', async () => {
  const agents = agentsOf(app);
  const before = (await verifyAudit(app.database, null)).entries;
  const failed = await agents.add({ name: 'a', webhook_ids: ['00000000-0000-4000-8000-000000000000'] });
  expect(failed).toMatchObject({ kind: 'problem', code: 'invalid_request' });
  await agents.add({ name: 'b', webhook_ids: [] });
  expect(await verifyAudit(app.database, null)).toMatchObject({ intact: true, entries: before + 1 });
});
