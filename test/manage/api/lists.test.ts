/** Every list that has pages: its pages are the whole list, and each of its parameters is refused by name. */
import { expect, test } from 'vitest';
import { operationRoutes } from '../../../server/manage/api/routes.ts';
import { shared } from '../../helpers/shared.ts';
import { makeWorld } from '../../helpers/world.ts';

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
