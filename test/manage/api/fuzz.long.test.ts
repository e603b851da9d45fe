/**
 * Requests to every operation, generated from the OpenAPI document, with input that fits it and input that does not, and listed ones that
 * are hostile: every answer is documented, input that the document does not allow changes nothing, and no answer is a 5xx without a
 * stated reason.
 */
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { type OperationName, operationRoutes, userRoutes } from '../../../server/manage/api/routes.ts';
import { fuzzRuns, numbers, oneOf, shareOf } from '../../helpers/fuzz.ts';
import { receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { SchemaValues } from '../../helpers/schema-values.ts';
import { shared } from '../../helpers/shared.ts';
import { inputs, makeWorld, pathTo } from '../../helpers/world.ts';

/** FUZZ_SEED: other requests. */
const SEED = Number(process.env.FUZZ_SEED ?? 1);
/** Number of requests to each operation: 4,000 in all take about two minutes. */
const REQUESTS = fuzzRuns(40);
/** 503 with a stated reason: too many requests of this kind at the same time. */
const busy = ['search_busy', 'sign_in_busy', 'streams_full', 'user_streams_full', 'jobs_full', 'exports_full'];

const world = shared(makeWorld);
let values: SchemaValues;
let person: TestPerson;
let ajv: InstanceType<typeof Ajv2020.default>;
beforeAll(async () => {
  values = new SchemaValues(world.api.document);
  person = await addPerson(world.app, 'administrator');
  ajv = new Ajv2020.default({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema({ ...world.api.document, $id: 'weir' });
});

interface Row {
  method: string;
  path: string;
  name: OperationName;
  access: string;
}
const rowsOf = (routes: readonly (readonly [string, string, OperationName, string, string])[]): Row[] =>
  routes.map(([method, path, name, access]) => ({ method, path, name, access }));

/** Compares the response with the document. Returns its status and a sentence that repeats the request. */
async function ask(row: Row, url: string, body: string | undefined, headers: Record<string, string> = {}) {
  const { method, name, access } = row;
  const credential = access.startsWith('agent') ? world.agent.token : person.token;
  const answer = await receiveAnswer(world.app.url + url, {
    method,
    headers: { authorization: `Bearer ${credential}`, ...headers },
    ...(method === 'GET' || body === undefined ? {} : { body }),
  });
  const { code } = (answer.body ?? {}) as { code?: string };
  const sentence = JSON.stringify({ method, url, body, headers, answer: [answer.status, answer.body] });
  // An id that is a path would reach another route.
  if (code !== 'not_found' && code !== 'method_not_allowed')
    expect(world.api.faults(world.api.operation(name), answer), sentence).toEqual([]);
  if (answer.status >= 500) expect(busy, sentence).toContain(code);
  return { status: answer.status, sentence };
}

/** The parameters in the query and the schema of the body, as the document has them. */
function describedBy({ method, name }: Row) {
  const { parameters = [], requestBody } =
    world.api.document.paths[world.api.operation(name).path][method.toLowerCase()];
  const query: { name: string; schema: object; required: boolean }[] = parameters.filter(
    (given: { in: string }) => given.in === 'query',
  );
  return { query, schema: requestBody?.content['application/json']?.schema };
}

/** Fields that Weir reads, with texts that clients do not send. */
const fields = fc.dictionary(
  fc.constantFrom('if-match', 'if-none-match', 'last-event-id', 'accept', 'idempotency-key', 'x-request-id', 'range'),
  fc
    .string({ unit: fc.constantFrom('a', '"', ',', '*', 'W', '/', '\t', ' ', '\xe9', '0'), maxLength: 20 })
    .map((text) => text.trim()),
  { maxKeys: 3 },
);

/** What is left out of a generated body: a claim would wait, and a URL would be called. */
const fixed: Record<string, object> = { claim: { wait_seconds: 0 } };

test.each(rowsOf(operationRoutes))('$name answers generated requests as documented', async (row) => {
  const { path, name } = row;
  const next = numbers(SEED + operationRoutes.findIndex((one) => one[2] === name) * 1_000);
  const { query, schema } = describedBy(row);
  const querySchema = {
    type: 'object',
    properties: Object.fromEntries(query.map((one) => [one.name, one.schema])),
    required: query.filter((one) => one.required).map((one) => one.name),
  };
  const validate = schema === undefined ? null : ajv.compile(relocated(schema));
  const take = <T>(from: fc.Arbitrary<T>): T => fc.sample(from, { seed: next(2 ** 31), numRuns: 1 })[0]!;
  let real = '';
  for (let request = 0; request < REQUESTS; request++) {
    if (path.includes(':id') && (real === '' || next(8) === 0)) real = await world.make(path.split('/')[3]!);
    // A client makes another path of `.` and `..`.
    const ids = [real, real, real, take(fc.uuid()), take(fc.string().filter((text) => !/^\.\.?$/.test(text)))];
    const url = path
      .replace(':id', encodeURIComponent(wellFormed(oneOf(next, ids))))
      .replace(':webhook_id', oneOf(next, [world.webhook.id, take(fc.uuid())]));
    const parameters = take(next(3) === 0 ? values.unfitting(querySchema) : values.fitting(querySchema));
    const body = take(next(3) === 0 ? values.unfitting(schema ?? {}) : values.fitting(schema ?? {}));
    const sent = schema === undefined ? undefined : { ...(body as object), ...fixed[name] };
    const headers = next(4) === 0 ? take(fields) : {};
    const { status, sentence } = await ask(row, url + queryText(parameters as object), JSON.stringify(sent), headers);
    if (validate !== null && !validate(sent)) expect(status, sentence).toBeGreaterThanOrEqual(400);
  }
});

/** References lead to the document that `ajv` knows. */
function relocated(schema: object): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"weir#/components/'));
}

/** An unpaired surrogate has no percent-encoding. */
function wellFormed(text: string): string {
  return text.replace(/\p{Cs}/gu, '?');
}

function queryText(given: object): string {
  const pairs = Object.entries(given).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return `${name}=${encodeURIComponent(wellFormed(text))}`;
  });
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

/** An unpaired surrogate has no percent-encoding; its bytes as written by some encoders are not UTF-8. */
const isText = (text: string) => !/\p{Cs}/u.test(text);
const inPath = (text: string) => (isText(text) ? encodeURIComponent(text) : '%ED%A0%80');

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

/** JSON that only a program writes. */
const bodies = [
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
  '['.repeat(100_000),
  `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`,
  `{"a":${'9'.repeat(10_000)}}`,
  `{"a":"${'x'.repeat(1_100_000)}"}`,
  '{"constructor":{"prototype":{"x":1}}}',
  '{"name":{"$gt":""}}',
  '{"name":"\\ud800"}',
];

const types = ['text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded', '*/*', 'x'];

/** Everything in the database that requests must not change: the schema, and unrelated rows. */
async function fingerprint(): Promise<unknown> {
  return world.app.sql(
    `select (select md5(string_agg(relname || relkind::text, ',' order by relname, relkind)) from pg_class where relnamespace = 'public'::regnamespace) as relations,
             (select md5(e::text) from events e where id = $1) as event,
             (select md5(u::text) from users u where id = $2) as administrator,
             (select md5((to_jsonb(a) - '{last_seen_at,last_seen_from}'::text[])::text) from agents a where id = $3) as agent`,
    world.event,
    world.administrator.id,
    world.agent.id,
  );
}

let turn = 0;
test.each(rowsOf(userRoutes))('$name: SQL or invalid text in every field, invalid bodies and types', async (row) => {
  const before = await fingerprint();
  const id = row.path.includes(':id') ? await world.make(row.path.split('/')[3]!) : '';
  const at = (text = id, query = '') => pathTo(row.path, inPath(text), world) + query;
  const { query, schema } = describedBy(row);
  const places: ((text: string) => ReturnType<typeof ask>)[] = [
    ...(id === '' ? [] : [(text: string) => ask(row, at(text), '{}')]),
    ...query.map(
      ({ name }) =>
        (text: string) =>
          ask(row, at(id, `?${new URLSearchParams({ [name]: text })}`), '{}'),
    ),
    ...Object.keys(schema?.properties ?? {}).map((name) => (text: string) => {
      return ask(row, at(), JSON.stringify({ ...(inputs[row.name]?.(world) as object), [name]: text }));
    }),
  ];
  for (const place of places) for (const text of shareOf(injections, 5, turn++)) await place(text);
  if (row.method !== 'GET') {
    for (const body of shareOf(bodies, 6, turn)) await ask(row, at(), body);
    for (const type of shareOf(types, 1, turn)) await ask(row, at(), '{}', { 'content-type': type });
  }
  expect(await fingerprint()).toEqual(before);
  expect(({} as { role?: string }).role).toBeUndefined();
});

test.each(injections.filter((text) => text.length < 200 && isText(text) && !/[\0]/.test(text)))(
  'a name: %s is stored unchanged',
  async (name) => {
    const { status, body } = await person.api('POST', '/api/v1/webhooks', { name });
    expect([status, body.name]).toEqual([201, name]);
    expect((await person.api('GET', `/api/v1/webhooks/${body.id}`)).body.name).toBe(name);
  },
);
