/**
 * The form of a preset: a sender's signature scheme, with what a person needs to set it up. presets.json holds them all.
 *
 * The product imports only the type. A test checks presets.json against the schema, so that a start does not spend time on it.
 */
import { z } from 'zod';
import { type Handshake, handshakes, presetDefinitionSchema } from './definition.ts';

export const presetSchema = z.strictObject({
  name: z.string().regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/, 'Give lower case and digits, with hyphens.'),
  title: z.string().min(1).describe('the sender, as people know it'),
  docs: z.url({ protocol: /^https$/ }).describe("the sender's page about its signature"),
  source: z.string().min(1).describe('what the definition was taken from'),
  steps: z.array(z.string().min(1)).min(2).describe('how to set up the sender, one sentence or two each'),
  definition: presetDefinitionSchema.describe('how requests are signed'),
  publicKeyDefinition: presetDefinitionSchema
    .exactOptional()
    .describe('for a webhook with a public key, where the sender may sign with a secret or a private key'),
  ownSecret: z
    .literal(true)
    .exactOptional()
    .describe('the person chooses the secret, so that Weir can generate it; absent: the sender shows it'),
  handshake: z.enum(Object.keys(handshakes) as [Handshake, ...Handshake[]]).exactOptional(),
  demands: z
    .strictObject({ what: z.string().min(1), source: z.url({ protocol: /^https$/ }) })
    .exactOptional()
    .describe('what the sender demands of the response besides a 2xx status and its handshake, and where it says so'),
  retries: z
    .strictObject({
      repeats: z.string().min(1).nullable().describe('completes "NAME repeats refused requests"; null: it does not'),
      source: z.url({ protocol: /^https$/ }),
      redeliver: z
        .url({ protocol: /^https$/ })
        .exactOptional()
        .describe('how a person has it send a request again'),
    })
    .exactOptional()
    .describe('what the sender does with a request that was not accepted; absent: not known'),
  isGeneral: z.literal(true).exactOptional().describe('not of one sender'),
  notes: z.string().min(1).exactOptional().describe('what would surprise a person'),
  eventType: z
    .string()
    .exactOptional()
    .describe('where the type of an event is: header:x-github-event, json:/type, or two joined by +'),
});

export type Preset = Readonly<z.output<typeof presetSchema>>;
