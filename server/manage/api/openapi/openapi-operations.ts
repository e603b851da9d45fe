/** Documents that are the same for everyone: openapi.json, configuration/schema.json, and signature-schemes, the table of presets. */
import { z } from 'zod';
import { configurationJsonSchema } from '../../../model/configuration.ts';
import { type Handshake, handshakes, presetDefinitionSchema } from '../../../model/signatures/definition.ts';
import { isAsymmetric } from '../../../model/signatures/keys.ts';
import type { Preset } from '../../../model/signatures/preset.ts';
import { presets } from '../../../model/signatures/presets.ts';
import { retriesText } from '../../../model/signatures/retries.ts';
import { done, openOperation } from '../operation.ts';
import { listSchema } from '../paging.ts';

const json = (content: string) => ({ kind: 'encoded', status: 200, contentType: 'application/json', content }) as const;

/**
 * Serves the document as /api/v1/openapi.json.
 * @param read returns the document as JSON
 */
export function openApiOperations(read: () => string) {
  return {
    showOpenApi: openOperation({
      isConstant: true,
      answers: { 200: z.looseObject({ openapi: z.string().describe('OpenAPI version') }) },
      handle: async () => json(read()),
    }),

    showConfigurationSchema: openOperation({
      isConstant: true,
      answers: { 200: z.looseObject({ $schema: z.string().describe('version of JSON Schema') }) },
      handle: async () => json(JSON.stringify(configurationJsonSchema())),
    }),
  };
}

const signatureSchemeSchema = z
  .object({
    name: z.string().describe('value of signature_scheme'),
    title: z.string().describe('the sender, as people know it'),
    documentation: z.string().describe("the sender's page about its signature"),
    steps: z.array(z.string()).describe('how to set up the sender'),
    key: z.enum(['secret', 'public_key', 'secret_or_public_key']).describe('what the webhook needs'),
    definition: presetDefinitionSchema.describe('how requests are signed'),
    public_key_definition: presetDefinitionSchema
      .nullable()
      .describe('the same for a webhook with a public key, where it needs one or the other; else null'),
    handshake: z
      .enum(Object.keys(handshakes) as [Handshake, ...Handshake[]])
      .nullable()
      .describe('how the sender checks the URL, which Weir answers; null: it does not'),
    demands: z
      .string()
      .nullable()
      .describe('what the sender demands of the response besides its handshake; null: a 2xx status'),
    retries: z.string().describe('whether the sender repeats requests that were not accepted'),
    event_type: z.string().nullable().describe('where a request has the type of its event; null: not known'),
    notes: z.string().nullable().describe('what else to know'),
  })
  .meta({ id: 'SignatureScheme' });

/** A preset as the API returns it. */
export function describePreset(preset: Preset): z.output<typeof signatureSchemeSchema> {
  const { name, title, docs, steps, definition, publicKeyDefinition, handshake, demands, notes, eventType } = preset;
  return {
    name,
    title,
    documentation: docs,
    steps: [...steps],
    key:
      publicKeyDefinition !== undefined
        ? 'secret_or_public_key'
        : isAsymmetric(definition.algorithm)
          ? 'public_key'
          : 'secret',
    definition,
    public_key_definition: publicKeyDefinition ?? null,
    handshake: handshake ?? null,
    demands: demands?.what ?? null,
    retries: retriesText(name),
    event_type: eventType ?? null,
    notes: notes ?? null,
  };
}

export const schemeOperations = {
  listSchemes: openOperation({
    isConstant: true,
    answers: { 200: listSchema(signatureSchemeSchema) },
    handle: async () => done(200, { items: presets.map(describePreset) }),
  }),
};
