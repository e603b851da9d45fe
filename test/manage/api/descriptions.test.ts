/** Every parameter and every member of the OpenAPI document has a description; those of senders and agents have an example. */
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect, test } from 'vitest';
import { shared } from '../../helpers/shared.ts';
import { makeWorld } from '../../helpers/world.ts';

// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into
type Document = any;

const world = shared(makeWorld);

interface Field {
  place: string;
  field: Document;
}

/** Members and parameters. Of the parts of an allOf, which narrow one another, only the first. */
function* fieldsIn(value: Document, place: string): Generator<Field> {
  if (typeof value !== 'object' || value === null) return;
  for (const parameter of value.parameters ?? []) yield { place: `${place}?${parameter.name}`, field: parameter };
  for (const [name, field] of Object.entries(value.properties ?? {})) yield { place: `${place}.${name}`, field };
  for (const [name, inner] of Object.entries(value))
    if (name !== 'examples') yield* fieldsIn(name === 'allOf' ? value.allOf[0] : inner, `${place}/${pointed(name)}`);
}

/** JSON pointers of the schemas with examples. */
function* withExamples(value: Document, pointer: string): Generator<string> {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value.examples)) yield pointer;
  for (const [name, inner] of Object.entries(value))
    if (name !== 'examples') yield* withExamples(inner, `${pointer}/${pointed(name)}`);
}

/** RFC 6901, in the fragment of a URI. */
function pointed(name: string): string {
  return encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));
}

/** Its own description, that of the referenced schema, or that of one of its alternatives. */
function isDescribed(field: Document): boolean {
  if (typeof field.description === 'string') return field.description.length > 0;
  if (typeof field.$ref === 'string')
    return isDescribed(world.api.document.components.schemas[field.$ref.split('/').at(-1)]);
  return Array.isArray(field.anyOf) && field.anyOf.some(isDescribed);
}

test('every parameter and every member has a description', () => {
  const fields = [...fieldsIn(world.api.document, '')];
  expect(fields.length).toBeGreaterThan(500);
  expect(fields.flatMap(({ place, field }) => (isDescribed(field) ? [] : [place]))).toEqual([]);
});

test.each([
  ['post /in/{webhook_id}', 202],
  ['post /in/{webhook_id}/batch', 202],
  ['post /api/v1/agent/session', 200],
  ['get /api/v1/agent/me', 200],
  ['post /api/v1/agent/deliveries/claim', 200],
  ['post /api/v1/agent/deliveries/ack', 200],
  ['post /api/v1/agent/deliveries/nack', 200],
  ['post /api/v1/agent/deliveries/extend', 200],
  ['get /api/v1/webhooks/{id}', 200],
  ['get /api/v1/events/{id}', 200],
  ['get /api/v1/deliveries/{id}', 200],
])('%s has an example of its body and its response', (name, status) => {
  const [method, path] = name.split(' ') as [string, string];
  const { document } = world.api;
  const { requestBody, responses } = document.paths[path][method];
  const bodies = [responses[status], ...(requestBody === undefined ? [] : [requestBody])];
  for (const { content } of bodies) {
    const [{ schema }] = Object.values(content) as Document[];
    const { examples } =
      schema.$ref === undefined ? schema : document.components.schemas[schema.$ref.split('/').at(-1)];
    expect(examples).toHaveLength(1);
  }
});

test('every example matches its schema', () => {
  const { document } = world.api;
  const ajv = new Ajv2020.default({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema({ ...document, $id: 'weir' });
  const pointers = [...withExamples(document, '')];
  expect(pointers.length).toBeGreaterThan(15);
  for (const pointer of pointers) {
    const validate = ajv.compile({ $ref: `weir#${pointer}` });
    const { examples } = pointer
      .split('/')
      .slice(1)
      .reduce((value, name) => value[decodeURIComponent(name).replaceAll('~1', '/').replaceAll('~0', '~')], document);
    for (const example of examples)
      expect([pointer, validate(example), validate.errors]).toEqual([pointer, true, null]);
  }
});
