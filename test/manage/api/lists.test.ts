/** Every operation on lists and ids: pages are the whole list, parameters are refused by name, and an id does not grant access. */
import { describe, expect, test } from 'vitest';
import { type OperationName, operationRoutes, userRoutes } from '../../../server/manage/api/routes.ts';
import { addAgent } from '../../helpers/agents.ts';
import { receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { inputs, makeWorld, pathTo } from '../../helpers/world.ts';

interface Parameter {
  name: string;
  in: string;
  schema: object;
}

const world = shared(makeWorld);

const reads = operationRoutes
  .filter(([method, path, , access]) => method === 'GET' && !path.includes(':') && !access.startsWith('agent'))
  .map(([, path, name]) => ({ path, name }));
const parametersOf = (path: string): Parameter[] =>
  (world.api.document.paths[path].get.parameters ?? []).filter((one: Parameter) => one.in === 'query');
const ask = (path: string, query: string) => world.administrator.api('GET', `${path}?${query}`);

/** Lists that have items of other kinds, or of another database. */
const others: readonly string[] = ['listAlerts', 'listIssues'];

test.each(reads)('$name: its pages have each item once, in the order of the list', async ({ path, name }) => {
  const names = parametersOf(path).map((one) => one.name);
  if (!names.includes('cursor') || !names.includes('limit') || others.includes(name)) return;
  const [, , , collection, ...rest] = path.split('/');
  if (rest.length === 0 && collection !== 'audit') for (let i = 0; i < 3; i++) await world.make(collection!);
  const all = names.includes('all') ? '&all=true' : '';
  const whole = (await ask(path, `limit=200${all}`)).body.items;
  expect(whole.length).toBeGreaterThan(2);
  const key = (item: Record<string, unknown>) => item.id ?? item.number;
  const seen: unknown[] = [];
  let cursor: string | null = '';
  for (let pages = 0; cursor !== null; pages++) {
    expect(pages).toBeLessThan(whole.length);
    const next: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { status, body } = await ask(path, `limit=2${all}${next}`);
    expect([status, body.items.length <= 2]).toEqual([200, true]);
    seen.push(...body.items.map(key));
    cursor = body.next_cursor;
  }
  expect(seen).toEqual(whole.map(key));
});

/** Whether a schema allows only some texts. */
const isTyped = ({ schema }: Parameter) =>
  /"(format|enum|pattern)":|"type":"(integer|number|boolean)"/.test(JSON.stringify(schema));

test.each(reads)('$name: a wrong parameter is refused by its name', async ({ path }) => {
  const all = parametersOf(path);
  const given = all.filter(isTyped);
  const wrong = given.map(({ name }) => [name, `${name}=%00`]);
  if (all.length > 0) wrong.push(['colour', 'colour=red']);
  if (given.some(({ name }) => name === 'limit')) wrong.push(['limit', 'limit=0'], ['limit', 'limit=1000000']);
  for (const [name, query] of wrong) {
    const { status, body } = await ask(path, query!);
    expect([query, status, body.errors?.[0].parameter]).toEqual([query, 422, name]);
  }
});

const stranger = shared(async () => addAgent(world.app, [await world.app.addWebhook()]));
const owner = shared(() => addPerson(world.app, 'operator'));

type Row = { method: string; path: string; name: OperationName; access: string };
const rows: Row[] = userRoutes.map(([method, path, name, access]) => ({ method, path, name, access }));
const collectionOf = (path: string) => path.split('/')[3]!;

function askFor({ method, path, name }: Row, id: string, token: string) {
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
    expect((await askFor(row, id, world.agent.token)).status).toBe(200);
    expect((await askFor(row, id, stranger.token)).status).toBe(404);
  });

  test.each(mixed.filter(({ path }) => !path.includes(':id')))(
    '$name contains nothing of other agents',
    async (row) => {
      const id = await visible[collectionOf(row.path)]!();
      const idsFor = async (token: string, query: string) => {
        const { status, body } = await askFor({ ...row, path: `${row.path}?limit=200${query}` }, '', token);
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
        const [foreign, unknown] = [made.body.id, world.webhook.id].map((id) => askFor(row, id, other.token));
        const { request_id: _, ...refusal } = (await unknown!).body as Record<string, unknown>;
        expect(await foreign).toMatchObject({ status: 404, body: refusal });
      }
      expect((await owner.api('GET', `/api/v1/tokens/${made.body.id}`)).body).toMatchObject({ revoked_at: null });
      expect((await askFor(row, made.body.id, owner.token)).status).toBeLessThan(300);
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
