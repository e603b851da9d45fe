/**
 * Requests generated from the OpenAPI document, to every operation, with input that fits the document and input that does not: every
 * answer is documented, input that the document does not allow changes nothing, and no answer is a 5xx without a stated reason.
 */
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { operationRoutes } from '../../../server/manage/api/routes.ts';
import { fuzzRuns, numbers, oneOf } from '../../helpers/fuzz.ts';
import { receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { SchemaValues } from '../../helpers/schema-values.ts';
import { shared } from '../../helpers/shared.ts';
import { makeWorld } from '../../helpers/world.ts';

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

test.each(operationRoutes.map(([method, path, name, access]) => ({ method, path, name, access })))(
  '$name answers generated requests as documented',
  async ({ method, path, name, access }) => {
    const next = numbers(SEED + operationRoutes.findIndex((row) => row[2] === name) * 1_000);
    const operation = world.api.operation(name);
    const { parameters = [], requestBody } = world.api.document.paths[operation.path][method.toLowerCase()];
    const schema = requestBody?.content['application/json']?.schema;
    const query = parameters.filter((given: { in: string }) => given.in === 'query');
    const querySchema = {
      type: 'object',
      properties: Object.fromEntries(query.map((one: { name: string; schema: object }) => [one.name, one.schema])),
      required: query.filter((one: { required: boolean }) => one.required).map((one: { name: string }) => one.name),
    };
    const validate = schema === undefined ? null : ajv.compile(relocated(schema));
    const take = <T>(from: fc.Arbitrary<T>): T => fc.sample(from, { seed: next(2 ** 31), numRuns: 1 })[0]!;
    const collection = path.split('/')[3]!;
    let real = '';
    for (let request = 0; request < REQUESTS; request++) {
      if (path.includes(':id') && (real === '' || next(8) === 0)) real = await world.make(collection);
      const ids = [real, real, real, take(fc.uuid()), take(fc.string())];
      const url = path
        .replace(':id', encodeURIComponent(wellFormed(oneOf(next, ids))))
        .replace(':webhook_id', oneOf(next, [world.webhook.id, take(fc.uuid())]));
      const parametersGiven = take(next(3) === 0 ? values.unfitting(querySchema) : values.fitting(querySchema));
      const body = take(next(3) === 0 ? values.unfitting(schema ?? {}) : values.fitting(schema ?? {}));
      const sent = schema === undefined ? undefined : { ...(body as object), ...fixed[name] };
      const credential = access.startsWith('agent') ? world.agent.token : person.token;
      const answer = await receiveAnswer(`${world.app.url}${url}${queryText(parametersGiven as object)}`, {
        method,
        headers: { authorization: `Bearer ${credential}`, ...(next(4) === 0 ? take(fields) : {}) },
        ...(method === 'GET' || sent === undefined ? {} : { body: JSON.stringify(sent) }),
      });
      const { code } = (answer.body ?? {}) as { code?: string };
      const sentence = JSON.stringify({ method, url, parametersGiven, sent, answer: [answer.status, answer.body] });
      if (code !== 'not_found' && code !== 'method_not_allowed')
        expect(world.api.faults(operation, answer), sentence).toEqual([]);
      if (answer.status >= 500) expect(busy, sentence).toContain(code);
      if (validate !== null && !validate(sent)) expect(answer.status, sentence).toBeGreaterThanOrEqual(400);
    }
  },
);

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
