/** JSON Schemas of the document, made from the zod schemas that validate. */
import { z } from 'zod';

export type Json = Record<string, unknown>;

/** Formats that say it all: zod adds long patterns to them. */
const knownFormats = new Set<unknown>(['uuid', 'date-time']);

/** Schemas with an id (`.meta({ id })`) stand once, under components, and are referred to. */
export class Schemas {
  readonly components: Record<string, Json> = {};

  /** Of a body or a parameter that is sent to Weir. */
  taken(schema: z.ZodType): Json {
    return this.#convert(schema, 'input');
  }

  /** Of a body that Weir sends. Clients are to bear members that come with a later release. */
  given(schema: z.ZodType): Json {
    return this.#convert(schema, 'output');
  }

  #convert(schema: z.ZodType, io: 'input' | 'output'): Json {
    const { $schema, $defs, ...own } = z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        // zod leaves out the examples of what is transformed once it is read.
        const { examples } = z.globalRegistry.get(zodSchema) ?? {};
        if (examples !== undefined) jsonSchema.examples = examples as unknown[];
        if (knownFormats.has(jsonSchema.format)) delete jsonSchema.pattern;
        const { def } = zodSchema._zod;
        if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties;
      },
    }) as Json;
    for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, Json>))
      this.components[name] = withReferences(definition);
    return withReferences(own);
  }
}

/** What zod calls a definition is a component here. */
function withReferences(schema: Json): Json {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));
}
