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
      // A client makes another path of `.` and `..`.
      const ids = [real, real, real, take(fc.uuid()), take(fc.string().filter((text) => !/^\.\.?$/.test(text)))];
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

// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
type Schema = any;

const TEXT_CHARACTERS_MAX = 40;
const ITEMS_MAX = 3;
const NUMBER_MAX = 1_000_000_000;

class SchemaValues {
  readonly #components: Record<string, Schema>;

  constructor(document: Schema) {
    this.#components = document.components.schemas;
  }

  /** Values that the schema allows. Required members are always there, others half of the time. */
  fitting(schema: Schema): fc.Arbitrary<unknown> {
    if (schema === undefined || Object.keys(schema).length === 0) return fc.jsonValue({ maxDepth: 1 });
    if (schema.$ref !== undefined) return this.fitting(this.#components[schema.$ref.split('/').at(-1)]);
    if (schema.const !== undefined) return fc.constant(schema.const);
    if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
    const choices: Schema[] | undefined = schema.anyOf ?? schema.oneOf;
    if (choices !== undefined) return fc.oneof(...choices.map((choice) => this.fitting(choice)));
    if (schema.allOf !== undefined) return this.fitting(Object.assign({}, ...schema.allOf));
    return this.#ofType(schema);
  }

  #ofType(schema: Schema): fc.Arbitrary<unknown> {
    if (Array.isArray(schema.type))
      return fc.oneof(...schema.type.map((type: string) => this.#ofType({ ...schema, type })));
    switch (schema.type) {
      case 'string':
        return textOf(schema);
      case 'integer':
        return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? NUMBER_MAX, NUMBER_MAX) });
      case 'number':
        return fc.double({ min: schema.minimum ?? 0, max: schema.maximum ?? NUMBER_MAX, noNaN: true });
      case 'boolean':
        return fc.boolean();
      case 'null':
        return fc.constant(null);
      case 'array': {
        const [minLength, maxLength] = [schema.minItems ?? 0, Math.min(schema.maxItems ?? ITEMS_MAX, ITEMS_MAX)];
        return fc.array(this.fitting(schema.items), { minLength, maxLength: Math.max(minLength, maxLength) });
      }
      case 'object':
        return this.#objects(schema);
      default:
        throw new Error(`test/helpers/schema-values.ts makes no values of ${JSON.stringify(schema)}`);
    }
  }

  #objects({ properties = {}, required = [] }: Schema): fc.Arbitrary<object> {
    const members = Object.entries<Schema>(properties).filter(([, schema]) => schema.not === undefined);
    return fc.record(Object.fromEntries(members.map(([name, schema]) => [name, this.fitting(schema)])), {
      requiredKeys: required,
    });
  }

  /** Objects of the schema with one member that it does not allow: of another type, unknown, or missing though required. */
  unfitting(schema: Schema): fc.Arbitrary<object> {
    const { properties = {}, required = [] }: Schema =
      schema.$ref === undefined ? schema : this.#components[schema.$ref.split('/').at(-1)];
    const names = [...Object.keys(properties), 'no_such_member'];
    const foreign = fc.oneof(
      fc.constantFrom(-1, 1e300, '', '\0', '\u{1F600}'.repeat(300), 'x'.repeat(20_000), [], [[]], {}, { a: 1 }),
      fc.string({ unit: 'binary' }),
      fc.jsonValue({ maxDepth: 3 }),
    );
    const changed = fc
      .tuple(this.#objects({ properties, required }), fc.constantFrom(...names), foreign)
      .map(([value, name, other]) => ({ ...value, [name]: other }));
    if (required.length === 0) return changed;
    const missing = fc
      .tuple(this.#objects({ properties, required }), fc.constantFrom<string>(...required))
      .map(([value, name]) => Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)));
    return fc.oneof(changed, missing);
  }
}

function textOf({ format, pattern, minLength = 0, maxLength = TEXT_CHARACTERS_MAX }: Schema): fc.Arbitrary<string> {
  if (format === 'uuid') return fc.uuid();
  if (format === 'date-time')
    return fc
      .date({ min: new Date('2020-01-01T00:00:00Z'), max: new Date('2030-01-01T00:00:00Z'), noInvalidDate: true })
      .map((date) => date.toISOString());
  if (format === 'email') return fc.emailAddress();
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern, 'u'));
  const length = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, TEXT_CHARACTERS_MAX)) };
  return fc.oneof(fc.string({ unit: 'grapheme', ...length }), fc.string(length));
}
