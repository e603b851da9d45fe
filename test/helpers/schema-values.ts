/** Values that a JSON schema of the OpenAPI document allows, and such that it does not. */
import fc from 'fast-check';

// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
type Schema = any;

const TEXT_CHARACTERS_MAX = 40;
const ITEMS_MAX = 3;
const NUMBER_MAX = 1_000_000_000;

export class SchemaValues {
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
