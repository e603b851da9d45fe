/** Invalid input to every operation: the response is a 4xx or the input is stored unchanged; never a 5xx. */
import { describe, expect, test } from 'vitest';
import { userRoutes } from '../../../server/manage/api/routes.ts';
import { shareOf } from '../../helpers/fuzz.ts';
import { receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { inputs, makeWorld, pathTo } from '../../helpers/world.ts';

const world = shared(makeWorld);
const person = shared(() => addPerson(world.app, 'administrator'));

type Row = { method: string; path: string; name: (typeof userRoutes)[number][2] };
const rows: Row[] = userRoutes.map(([method, path, name]) => ({ method, path, name }));

/** 503 with a stated reason: too many requests of this kind at the same time. */
const busy = ['search_busy', 'sign_in_busy', 'streams_full', 'user_streams_full'];

/** An unpaired surrogate has no percent-encoding; its bytes as written by some encoders are not UTF-8. */
const isText = (text: string) => !/\p{Cs}/u.test(text);
const inPath = (text: string) => (isText(text) ? encodeURIComponent(text) : '%ED%A0%80');

interface Hostile {
  id?: string;
  query?: string;
  /** The text as it is sent. */
  body?: string;
  headers?: Record<string, string>;
}

/** Sends as an administrator, and compares the response with the document. */
async function ask({ method, path, name }: Row, { id = '', query = '', body, headers }: Hostile) {
  const url = `${world.app.url}${pathTo(path, inPath(id), world)}${query === '' ? '' : `?${query}`}`;
  const answer = await receiveAnswer(url, {
    method,
    headers: { authorization: `Bearer ${person.token}`, ...headers },
    ...(method === 'GET' ? {} : { body: body ?? '{}' }),
  });
  const { code } = (answer.body ?? {}) as { code?: string };
  if (answer.status >= 500 && !busy.includes(code!))
    throw new Error(`${name} answered ${answer.status} ${code} to ${JSON.stringify({ id, query, body, headers })}`);
  // An id that is a path would reach another route.
  if (code !== 'not_found' && code !== 'method_not_allowed')
    expect(world.api.faults(world.api.operation(name), answer)).toEqual([]);
  return answer;
}

const realId = ({ path }: Row) => (path.includes(':id') ? world.make(path.split('/')[3]!) : Promise.resolve(''));

function parametersOf(row: Row): string[] {
  const { parameters = [] } = world.api.document.paths[world.api.operation(row.name).path][row.method.toLowerCase()];
  return parameters.filter((given: { in: string }) => given.in === 'query').map(({ name }: { name: string }) => name);
}

/** The members of the body, as the OpenAPI document describes them. */
function membersOf(row: Row): string[] {
  const { requestBody } = world.api.document.paths[world.api.operation(row.name).path][row.method.toLowerCase()];
  return Object.keys(requestBody?.content['application/json'].schema.properties ?? {});
}

const injections = [
  "' or 1=1 --",
  "'; drop table events cascade; --",
  '"; delete from users; --',
  "\\'; select pg_sleep(30); --",
  "' union select password_hash from users --",
  '$1',
  '{{7*7}}',
  '{a,b}',
  '%',
  '_',
  '\\x00',
  '\0',
  'a\0b',
  '\ud800',
  '\u202e',
  '../../etc/passwd',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59-23:59',
  '-1',
  '1e400',
  'NaN',
  'null',
  '00000000-0000-0000-0000-000000000000',
  'ffffffff-ffff-7fff-bfff-ffffffffffff',
  'x'.repeat(5_000),
];

/** Everything in the database that requests must not change: the schema, and unrelated rows. */
async function fingerprint(): Promise<unknown> {
  return world.app.database.query({
    text: `select (select md5(string_agg(relname || relkind::text, ',' order by relname, relkind)) from pg_class where relnamespace = 'public'::regnamespace) as relations,
             (select md5(e::text) from events e where id = $1) as event,
             (select md5(u::text) from users u where id = $2) as administrator,
             (select md5((to_jsonb(a) - '{last_seen_at,last_seen_from}'::text[])::text) from agents a where id = $3) as agent`,
    values: [world.event, world.administrator.id, world.agent.id],
  });
}

describe('SQL or invalid text in every field of', () => {
  let placesSoFar = 0;

  test.each(rows)(
    '$name',
    async (row) => {
      const before = await fingerprint();
      const id = await realId(row);
      const places: ((text: string) => Hostile)[] = [
        ...(id === '' ? [] : [(text: string) => ({ id: text })]),
        ...parametersOf(row).map((name) => (text: string) => ({
          id,
          query: `${new URLSearchParams({ [name]: text })}`,
        })),
        ...membersOf(row).map((name) => (text: string) => {
          return { id, body: JSON.stringify({ ...(inputs[row.name]?.(world) as object), [name]: text }) };
        }),
      ];
      for (const place of places) for (const text of shareOf(injections, 5, placesSoFar++)) await ask(row, place(text));
      expect(await fingerprint()).toEqual(before);
    },
    120_000,
  );

  test.each(injections.filter((text) => text.length < 200 && isText(text) && !/[\0]/.test(text)))(
    'a name: %s is stored unchanged',
    async (name) => {
      const { status, body } = await person.api('POST', '/api/v1/webhooks', { name });
      expect([status, body.name]).toEqual([201, name]);
      expect((await person.api('GET', `/api/v1/webhooks/${body.id}`)).body.name).toBe(name);
    },
  );
});

/** JSON that only a program writes. */
const texts = [
  '',
  '{',
  '[]',
  'null',
  '"x"',
  '1',
  'nul',
  '\ufeff{}',
  '{"a":1}{}',
  '{"__proto__":{"role":"administrator"}}',
];
const shapes = [
  '['.repeat(100_000),
  `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`,
  `{"a":${'9'.repeat(10_000)}}`,
  `{"a":"${'x'.repeat(1_100_000)}"}`,
  '{"constructor":{"prototype":{"x":1}}}',
  '{"name":{"$gt":""}}',
  '{"name":"\\ud800"}',
];

const types = ['text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded', '*/*', 'x'];

describe('invalid bodies, fields and types for', () => {
  test.each(rows.filter(({ method }) => method !== 'GET').map((row, turn) => ({ ...row, turn })))(
    '$name',
    async ({ turn, ...row }) => {
      const id = await realId(row);
      for (const body of shareOf([...texts, ...shapes], 6, turn)) await ask(row, { id, body });
      for (const type of shareOf(types, 1, turn)) await ask(row, { id, headers: { 'content-type': type } });
    },
    60_000,
  );
  test('no prototype was polluted', () => {
    expect(({} as { role?: string }).role).toBeUndefined();
  });
});
