/** JSON Schemas of the document, generated from the zod schemas that validate. */
import { z } from 'zod';

export type Json = Record<string, unknown>;

/** Formats that need no pattern: zod adds long ones to them. */
const knownFormats = new Set<unknown>(['uuid', 'date-time']);

/** A schema with an id (`.meta({ id })`) is emitted once, under components, and referenced. */
export class Schemas {
  readonly components: Record<string, Json> = {};

  /** Schema of a body or parameter sent to Weir. */
  taken(schema: z.ZodType): Json {
    return this.#convert(schema, 'input');
  }

  /** Schema of a body that Weir sends. Clients must accept members added by later releases. */
  given(schema: z.ZodType): Json {
    return this.#convert(schema, 'output');
  }

  #convert(schema: z.ZodType, io: 'input' | 'output'): Json {
    const { $schema, $defs, ...own } = z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        // zod omits the examples of schemas with a transform.
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

/** Turns zod's references to definitions into references to components. */
function withReferences(schema: Json): Json {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));
}
