/** An id does not grant access: agents see their own data, users their own tokens and sessions. */
import { describe, expect, test } from 'vitest';
import { type OperationName, userRoutes } from '../../../server/manage/api/routes.ts';
import { addAgent } from '../../helpers/agents.ts';
import { receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { inputs, makeWorld, pathTo } from '../../helpers/world.ts';

const world = shared(makeWorld);
const stranger = shared(async () => addAgent(world.app, [await world.app.addWebhook()]));
const owner = shared(() => addPerson(world.app, 'operator'));

type Row = { method: string; path: string; name: OperationName; access: string };
const rows: Row[] = userRoutes.map(([method, path, name, access]) => ({ method, path, name, access }));
const collectionOf = (path: string) => path.split('/')[3]!;

function ask({ method, path, name }: Row, id: string, token: string) {
  return receiveAnswer(world.app.url + pathTo(path, id, world), {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(method === 'GET' ? {} : { body: JSON.stringify(inputs[name]?.(world) ?? {}) }),
  });
}

/** An id of a collection that the agent of the world may see. */
const visible: Record<string, () => Promise<string> | string> = {
  webhooks: () => world.webhook.id,
  events: () => world.make('events'),
  deliveries: () => world.make('deliveries'),
};

describe('an agent', () => {
  const mixed = rows.filter(({ access }) => access === 'viewer or agent');

  test.each(mixed.filter(({ path }) => path.includes(':id')))('$name of another agent is not found', async (row) => {
    const id = await visible[collectionOf(row.path)]!();
    expect((await ask(row, id, world.agent.token)).status).toBe(200);
    expect((await ask(row, id, stranger.token)).status).toBe(404);
  });

  test.each(mixed.filter(({ path }) => !path.includes(':id')))(
    '$name contains nothing of other agents',
    async (row) => {
      const id = await visible[collectionOf(row.path)]!();
      const idsFor = async (token: string, query: string) => {
        const { status, body } = await ask({ ...row, path: `${row.path}?limit=200${query}` }, '', token);
        expect(status).toBe(200);
        return (body as { items: { id: string }[] }).items.map((item) => item.id);
      };
      expect(await idsFor(world.agent.token, '')).toContain(id);
      expect(await idsFor(stranger.token, '')).not.toContain(id);
      if (collectionOf(row.path) !== 'webhooks')
        expect(await idsFor(stranger.token, `&webhook_id=${world.webhook.id}`)).toEqual([]);
    },
  );
});

/**
 * For every operation on one resource: whether other users with the same role may do it. A new operation fails here until its row
 * is written.
 */
const reach: Record<string, 'any user' | 'owner' | 'itself'> = {
  events: 'any user',
  webhooks: 'any user',
  agents: 'any user',
  deliveries: 'any user',
  rejections: 'any user',
  jobs: 'any user',
  issues: 'any user',
  cells: 'any user',
  users: 'any user',
  tokens: 'owner',
  account: 'itself',
};

describe('resources of one user', () => {
  test('are covered for every collection', () => {
    const collections = rows.filter(({ path }) => path.includes(':id')).map(({ path }) => collectionOf(path));
    expect([...new Set(collections)].filter((collection) => !(collection in reach))).toEqual([]);
  });

  test.each(rows.filter(({ path }) => path.includes(':id') && reach[collectionOf(path)] === 'owner'))(
    '$name: the resource of another user is not found for lower roles',
    async (row) => {
      const made = await owner.api('POST', `/api/v1/${collectionOf(row.path)}`, { name: 'own' });
      for (const role of ['viewer', 'operator'] as const) {
        const other = await addPerson(world.app, role);
        const [foreign, unknown] = [made.body.id, world.webhook.id].map((id) => ask(row, id, other.token));
        const { request_id: _, ...refusal } = (await unknown!).body as Record<string, unknown>;
        expect(await foreign).toMatchObject({ status: 404, body: refusal });
      }
      expect((await owner.api('GET', `/api/v1/tokens/${made.body.id}`)).body).toMatchObject({ revoked_at: null });
      expect((await ask(row, made.body.id, owner.token)).status).toBeLessThan(300);
    },
  );

  test('a session can be listed and ended only by its user', async () => {
    const other = await addPerson(world.app, 'operator');
    const sessions = async (who: TestPerson) => (await who.browse('GET', '/api/v1/account/sessions')).body.items;
    expect(await sessions(other)).toMatchObject([{ id: other.sessionId }]);
    for (const role of ['operator', 'administrator'] as const) {
      const { status, body } = await (await addPerson(world.app, role)).browse(
        'DELETE',
        `/api/v1/account/sessions/${owner.sessionId}`,
      );
      expect([status, body.code]).toEqual([404, 'session_unknown']);
    }
    await other.browse('DELETE', '/api/v1/account/sessions');
    expect(await sessions(owner)).toMatchObject([{ id: owner.sessionId }]);
  });
});
