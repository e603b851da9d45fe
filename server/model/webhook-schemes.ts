/** Rules over the members of a webhook that select and supply its signature scheme. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { between, textOrNull } from './fields.ts';
import { definitionSchema, type SchemeDefinition, TOLERANCE_SECONDS_MAX } from './signatures/definition.ts';
import { isAsymmetric, publicKeyOf, secretFault } from './signatures/keys.ts';
import { CUSTOM, DEFAULT_SCHEME, definitionOf, presetNamed, presets } from './signatures/presets.ts';
import { HEADER_NAME, HEADER_WANTED, headerOf } from './signatures/sources.ts';
import type { Table } from './table.ts';

const PUBLIC_KEY_CHARACTERS_MAX = 2_000;
const VERIFY_TOKEN_CHARACTERS_MAX = 200;
const SCHEME_WANTED = 'Give custom, or the name of a scheme that GET /api/v1/signature-schemes lists.';

/** The members, in the table of a webhook. */
export const schemeFields = {
  signature_scheme: {
    input: z
      .enum([...presets.map(({ name }) => name), CUSTOM], { error: SCHEME_WANTED })
      .describe('how the sender signs: the name of a scheme, or custom'),
    initial: DEFAULT_SCHEME,
    output: z.string().describe('how the sender signs: the name of a scheme, or custom'),
    example: DEFAULT_SCHEME,
    mcp: 'how the sender signs; absent: sha256',
    command: { flags: '--scheme <name>', text: 'how the sender signs, see `weir scheme list`' },
    form: {
      label: 'Sender or signature scheme',
      hint: 'Type the name of the sender, for example stripe. sha256: HMAC-SHA256 of the body in hex, the default. custom: the definition below.',
      suggestions: 'l-schemes',
      noHistory: true,
    },
  },
  scheme_definition: {
    input: definitionSchema.nullable().describe('of the scheme custom; else null'),
    initial: null,
    output: definitionSchema.nullable().describe('of the scheme custom; else null'),
    command: { flags: '--scheme-file <file>', text: 'definition of the scheme custom, as JSON' },
    form: {
      label: 'Definition (JSON)',
      hint: 'Only for the scheme custom, such as {"algorithm":"hmac-sha256","header":"x-signature","prefix":"sha256=","encoding":"hex"}.',
      guide: 'senders#signature-schemes',
      type: 'json',
      rows: 4,
    },
  },
  tolerance_seconds: {
    input: between(0, TOLERANCE_SECONDS_MAX)
      .nullable()
      .describe(
        'how far the time of a request may be from the clock, in both directions; 0: not checked; null: as the scheme says',
      ),
    initial: null,
    output: z
      .int()
      .nullable()
      .describe('seconds that the time of a request may be from the clock; 0: not checked; null: as the scheme says'),
    command: {
      flags: '--tolerance-seconds <seconds>',
      text: 'how far the time of a request may be from the clock; 0: not checked',
    },
    form: {
      label: 'Tolerance (seconds)',
      hint: 'How far the time of a request may be from the clock. Empty: the tolerance of the scheme. 0: not checked.',
    },
  },
  public_key: {
    input: z
      .string()
      .trim()
      .min(1)
      .max(PUBLIC_KEY_CHARACTERS_MAX)
      .refine((text) => /^[\t\n\r -~]*$/.test(text), 'Give PEM, hex or base64: ASCII text.')
      .nullable()
      .describe(
        "the sender's public key (PEM, hex or base64), for schemes that have one instead of a secret; standard-webhooks takes either",
      ),
    initial: null,
    output: textOrNull("the sender's public key; null: the scheme uses a secret"),
    mcp: 'for schemes with a public key instead of a secret',
    command: {
      flags: '--public-key <key>',
      text: "the sender's public key (PEM, hex or base64), for schemes that have one",
    },
    form: {
      label: 'Public key of the sender',
      hint: 'Only for schemes with a public key instead of a secret, for example discord. standard-webhooks takes either: whpk_… here, or whsec_… as the secret.',
      type: 'textarea',
      rows: 2,
    },
  },
  verify_token: {
    input: z
      .string()
      .min(1)
      .max(VERIFY_TOKEN_CHARACTERS_MAX)
      .nullable()
      .describe('token of the GET handshake with hub.challenge; never shown'),
    initial: null,
    mcp: 'only for the schemes meta and others that check the URL with a token: the one to enter at the service',
    command: { flags: '--verify-token <token>', text: 'token of the GET handshake with hub.challenge' },
    form: {
      label: 'Verify token',
      hint: 'Only for senders with a GET handshake, for example meta.{stored token}',
      type: 'password',
    },
  },
  has_verify_token: {
    output: z.boolean().describe('true: GET handshakes with hub.challenge are answered'),
    example: false,
  },
} as const satisfies Table;

/** The members, after a change. */
interface SchemeMembers {
  signature_scheme: string;
  scheme_definition: SchemeDefinition | null;
  signature_header: string | null;
  tolerance_seconds: number | null;
  public_key: string | null;
  has_secret: boolean;
  has_verify_token: boolean;
}

interface SchemeFault {
  member: string;
  detail: string;
}

type Created = Omit<SchemeMembers, 'has_secret' | 'has_verify_token'> & {
  secret: string | null;
  generate_secret: boolean;
  verify_token: string | null;
};

/** Refines the input of a new webhook: reports what is wrong with the members together. */
export function checkCreated(given: Created, context: z.RefinementCtx): void {
  const { secret, generate_secret, verify_token } = given;
  const hasSecret = secret !== null || generate_secret;
  const fault = schemeFault({ ...given, has_secret: hasSecret, has_verify_token: verify_token !== null });
  const issue = ({ member, detail }: SchemeFault) =>
    context.addIssue({ code: 'custom', path: [member], message: detail });
  if (fault !== null) return issue(fault);
  const definition = selectedDefinition(given)!;
  const detail = isAsymmetric(definition.algorithm)
    ? hasSecret && `The scheme ${given.signature_scheme} uses a public key, not a secret.`
    : secret !== null && secretFault(definition, secret);
  if (detail) issue({ member: 'secret', detail });
}

/** The definition that the members select; null for a custom scheme without one. */
export function selectedDefinition(
  members: Pick<SchemeMembers, 'signature_scheme' | 'scheme_definition' | 'signature_header' | 'public_key'>,
): SchemeDefinition | null {
  return definitionOf({
    signatureScheme: members.signature_scheme,
    schemeDefinition: members.scheme_definition,
    signatureHeader: members.signature_header,
    publicKey: members.public_key,
  });
}

/** Whether a change concerns the scheme. */
export function changesScheme(patch: object): boolean {
  return ['signature_header', ...Object.keys(schemeFields)].some((member) => member in patch);
}

/** Whether requests are stored without a check of their signature: schemeFault refuses every other scheme without a secret or a key. */
export function isUnverified({
  signature_scheme,
  has_secret,
}: Pick<SchemeMembers, 'signature_scheme' | 'has_secret'>): boolean {
  return signature_scheme === DEFAULT_SCHEME && !has_secret;
}

/** As schemeFault, for a change. A change that ends the check of signatures needs `isWanted`. */
export function changeFault(before: SchemeMembers, after: SchemeMembers, isWanted: boolean): SchemeFault | null {
  const fault = schemeFault(after);
  if (fault !== null || isWanted || isUnverified(before) || !isUnverified(after)) return fault;
  return {
    member: 'unverified',
    detail:
      'After this change the webhook has neither a secret nor a public key, and anyone who knows its URL can send requests. Give it a secret first, or set unverified to true.',
  };
}

/** What is wrong with the members together; null: nothing. */
function schemeFault(members: SchemeMembers): SchemeFault | null {
  const { signature_scheme: scheme } = members;
  if (scheme === CUSTOM && members.scheme_definition === null)
    return { member: 'scheme_definition', detail: 'Give the definition of the custom scheme.' };
  if (scheme !== CUSTOM && members.scheme_definition !== null)
    return { member: 'scheme_definition', detail: 'Only signature_scheme custom takes a definition.' };
  const definition = selectedDefinition(members);
  if (definition === null) return { member: 'signature_scheme', detail: 'This build has no scheme of this name.' };
  const unreachable = unreachableHeader(definition);
  if (unreachable !== null)
    return { member: 'scheme_definition', detail: `${JSON.stringify(unreachable)}: ${HEADER_WANTED}` };
  return headerFault(members) ?? timeFault(members, definition) ?? keyFault(members, definition);
}

function headerFault({ signature_scheme: scheme, signature_header: header }: SchemeMembers): SchemeFault | null {
  const fault = (detail: string) => ({ member: 'signature_header', detail });
  if (scheme === 'token' && header === null) return fault('The scheme token needs the header that carries the token.');
  if (scheme === 'token' || scheme === DEFAULT_SCHEME || header === null) return null;
  return fault(`The scheme ${scheme} defines its header itself.`);
}

function timeFault(members: SchemeMembers, { timestamp }: SchemeDefinition): SchemeFault | null {
  if (members.tolerance_seconds === null || timestamp !== undefined) return null;
  return { member: 'tolerance_seconds', detail: `Requests of the scheme ${members.signature_scheme} carry no time.` };
}

function keyFault(members: SchemeMembers, definition: SchemeDefinition): SchemeFault | null {
  const { signature_scheme: scheme, public_key: key } = members;
  if (members.has_verify_token && presetNamed(scheme)?.handshake !== 'hub-challenge')
    return { member: 'verify_token', detail: `The scheme ${scheme} has no handshake with a verify token.` };
  if (!isAsymmetric(definition.algorithm)) {
    if (key !== null) return { member: 'public_key', detail: `The scheme ${scheme} uses a secret, not a public key.` };
    if (scheme === DEFAULT_SCHEME || members.has_secret) return null;
    const orKey = presetNamed(scheme)?.publicKeyDefinition === undefined ? '' : ', or its public_key';
    return { member: 'secret', detail: `The scheme ${scheme} needs the secret that the sender signs with${orKey}.` };
  }
  if (key === null) return { member: 'public_key', detail: `The scheme ${scheme} needs the sender's public key.` };
  if (publicKeyOf(definition, key) !== null) return null;
  const detail = `This is not a public key of ${definition.algorithm}: give it as the sender shows it (PEM, hex or base64).`;
  return { member: 'public_key', detail };
}

/** A secret in the form that the scheme takes, of 32 random bytes. */
export function generateSecret(definition: SchemeDefinition): string {
  const bytes = randomBytes(32);
  if (definition.algorithm === 'basic') return `weir:${bytes.toString('hex')}`;
  return definition.secret?.endsWith('base64') ? `whsec_${bytes.toString('base64')}` : bytes.toString('hex');
}

/** The first header of a definition that no request can have; null: none. */
function unreachableHeader({ header, timestamp, id }: SchemeDefinition): string | null {
  const names = [header ?? null, headerOf(timestamp?.from), headerOf(id)];
  return names.find((name) => name !== null && !HEADER_NAME.test(name)) ?? null;
}
