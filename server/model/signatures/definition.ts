/** The definition of a signature scheme: data that says where a request's signature is and what it signs. */
import { z } from 'zod';
import { answerSchema, refusedStatusSchema } from './answer.ts';

const algorithms = ['hmac-sha256', 'hmac-sha1', 'hmac-sha512', 'ed25519', 'ecdsa-p256', 'token', 'basic'] as const;
/** Schemes that data cannot express. Only presets use them. */
const codeAlgorithms = ['twilio', 'mailgun', 'microsoft-graph'] as const;
export type Algorithm = (typeof algorithms)[number] | (typeof codeAlgorithms)[number];

/** Whether a definition alone describes the algorithm; false: code implements it. */
export function isDefinable(algorithm: Algorithm): boolean {
  return (algorithms as readonly string[]).includes(algorithm);
}

/** Largest tolerance: a year, in seconds. */
export const TOLERANCE_SECONDS_MAX = 31_536_000;

/** Lenient, because stored definitions may have names that no request can have. unreachableHeader refuses them in inputs. */
const field = z
  .string()
  .trim()
  .toLowerCase()
  .regex(/^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/, 'Give the name of a header: letters, digits and hyphens, at most 100.');
const literal = (charactersMax: number) =>
  z
    .string()
    .regex(/^[\x20-\x7e]*$/, 'Give printable ASCII characters.')
    .max(charactersMax);
const pointer = /^json:(\/[^/\p{Cc}]{1,100}){1,8}$/u;
const headerSource = /^header:[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const source = (more: RegExp[], wanted: string) =>
  z
    .string()
    .max(900)
    .refine((given) => [headerSource, pointer, ...more].some((form) => form.test(given)), wanted);

const content = z
  .string()
  .regex(/^[\n\t\x20-\x7e]*$/, 'Give printable ASCII characters, tabs and line feeds.')
  .max(512)
  .refine((given) => given.split('{body}').length === 2, 'Give {body} exactly once.')
  .refine(
    (given) => !/[{}]/.test(given.replace(/\{(?:body|timestamp|id|url|method)\}/g, '')),
    'Use only {body}, {timestamp}, {id}, {url} and {method} in braces.',
  );

const HOW = 'how requests are signed; token and basic compare a header with the secret';
const shape = {
  header: field.describe('header that carries the signature, or the token'),
  items: literal(4).optional().describe('separator of several items in the header'),
  pair: literal(4).optional().describe('separator between key and value of an item'),
  key: literal(64).optional().describe('key of the items that are signatures'),
  prefix: literal(64).optional().describe('text before the encoded signature'),
  encoding: z.enum(['hex', 'base64', 'base64url']).optional().describe('of the signature; default: hex'),
  content: content.optional().describe('what is signed; default: {body}'),
  query: z
    .enum(['decoded', 'escaped'])
    .optional()
    .describe('how the sender may also write the query of the URL that it signs; default: only as it sends it'),
  timestamp: z
    .strictObject({
      from: source(
        [/^field:[\x21-\x7e]{1,64}$/],
        'Give field:KEY, header:NAME in lower case, or json:/POINTER.',
      ).describe('field:KEY of the signature header, header:NAME, or json:/POINTER into the body'),
      unit: z.enum(['s', 'ms']).optional().describe('default: s'),
      tolerance: z
        .int()
        .min(0)
        .max(TOLERANCE_SECONDS_MAX)
        .optional()
        .describe('seconds that the clocks may be apart, in both directions; 0 or absent: not checked'),
    })
    .optional()
    .describe('where the time of the request is'),
  secret: z
    .enum(['text', 'hex', 'base64', 'text-or-base64'])
    .optional()
    .describe('how the secret or key is written; default: text. text-or-base64: the sender may use either as the key'),
  id: source([], 'Give header:NAME in lower case, or json:/POINTER.')
    .optional()
    .describe("the sender's id of the event: the dedupe key, unless the webhook has a dedupe_header"),
  decompress: z
    .boolean()
    .optional()
    .describe('true: the sender signs the decompressed body of a request with Content-Encoding: gzip'),
  answer: answerSchema.optional().describe('response to a request that was stored; default: 202'),
  refused_status: refusedStatusSchema
    .optional()
    .describe('status of the response to a request whose signature is refused; default: 403'),
  batch: z
    .boolean()
    .optional()
    .describe(
      'true: the sender signs newline-delimited JSON and posts it to /in/{webhook_id}/batch; default: only if the scheme has neither id nor timestamp',
    ),
};

/** Rules over several members; each violation names the member. */
function consistent(given: Omit<SchemeDefinition, 'algorithm'>, context: z.RefinementCtx): void {
  const issue = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
  const text = given.content ?? '{body}';
  if (text.includes('{timestamp}') && !/^(field|header):/.test(given.timestamp?.from ?? ''))
    issue('timestamp', 'content holds {timestamp}: give timestamp.from as field:KEY or header:NAME.');
  if (text.includes('{id}') && !given.id?.startsWith('header:'))
    issue('id', 'content holds {id}: give id as header:NAME.');
  if (given.query && !text.includes('{url}')) issue('query', 'query needs {url} in content.');
  if (given.key && !given.pair) issue('key', 'A key needs pair, the separator after it.');
  if (given.timestamp?.from.startsWith('field:') && !(given.pair && given.items))
    issue('timestamp', 'field:KEY needs items and pair, the separators of the items, and of key and value.');
}

/** A definition as an operator gives it. */
export const definitionSchema = z
  .strictObject({ algorithm: z.enum(algorithms).describe(HOW), ...shape })
  .superRefine(consistent)
  .meta({ id: 'SchemeDefinition' });

/** The definition of a preset. `header` is absent where the webhook names it, or where the signature is in the body. */
export const presetDefinitionSchema = z
  .strictObject({
    algorithm: z.enum([...algorithms, ...codeAlgorithms]).describe(HOW),
    ...shape,
    header: shape.header
      .optional()
      .describe('header of the signature; absent: the webhook names it, or the signature is in the body'),
  })
  .superRefine(consistent);

export interface SchemeDefinition extends Omit<z.output<typeof presetDefinitionSchema>, 'algorithm'> {
  algorithm: Algorithm;
}

/** The requests with which senders check a webhook's URL. Each is answered as the sender's documentation asks. */
export const handshakes = {
  'hub-challenge': 'GET with hub.mode, hub.verify_token and hub.challenge',
  dropbox: 'GET with challenge',
  'microsoft-graph': 'POST with validationToken in the query',
  slack: 'signed POST of the type url_verification',
  zoom: 'signed POST of the event endpoint.url_validation',
  discord: 'signed POST of a PING',
  cloudevents: 'OPTIONS with WebHook-Request-Origin (CloudEvents)',
} as const;
export type Handshake = keyof typeof handshakes;
