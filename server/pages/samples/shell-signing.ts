/**
 * How a shell signs a request, by any scheme: with the secret in $WEIR_SECRET or, for a scheme with a public key, the private key in the
 * file $WEIR_PRIVATE_KEY. signRequest of the server does the same.
 */
import { randomUUID } from 'node:crypto';
import { twilioContent } from '../../model/signatures/code-schemes.ts';
import { isDefinable, type SchemeDefinition } from '../../model/signatures/definition.ts';
import { jsonText } from '../../model/signatures/json-bytes.ts';
import { isAsymmetric } from '../../model/signatures/keys.ts';
import { CannotSign, withMember } from '../../model/signatures/sign.ts';
import { fieldOf, headerOf, pointerOf } from '../../model/signatures/sources.ts';
import { type ShellPart, shellText } from './shell.ts';

export interface ShellSigning {
  /** Lines before and after that of the body. */
  before: string[];
  body: ShellPart[];
  after: string[];
  headers: [name: string, value: ShellPart[]][];
}

export const SET_ID = 'ID=$(openssl rand -hex 16)';
const [body, id, time, token, signature, secret]: ShellPart[] = [
  { name: 'BODY' },
  { name: 'ID' },
  { name: 'TIMESTAMP' },
  { name: 'TOKEN' },
  { name: 'SIGNATURE' },
  { name: 'WEIR_SECRET' },
];
/** Text of a body in whose place a variable is written; a sender cannot know it. */
const PLACE = `weir-${randomUUID()}-`;

/** Null when the body cannot carry the time or signature that the scheme puts into it. @param sent UTF-8 text without NUL */
export function shellSigning(definition: SchemeDefinition, url: string, sent: Buffer): ShellSigning | null {
  const before: string[] = [];
  const headers: ShellSigning['headers'] = [];
  const idHeader = headerOf(definition.id);
  const timeHeader = headerOf(definition.timestamp?.from);
  if (idHeader !== null) {
    before.push(SET_ID);
    headers.push([idHeader, [id!]]);
  }
  if (definition.timestamp !== undefined)
    before.push(`TIMESTAMP=$(date +%s)${definition.timestamp.unit === 'ms' ? '000' : ''}`);
  if (timeHeader !== null) headers.push([timeHeader, [time!]]);

  const { algorithm, header, prefix = '' } = definition;
  const path = isDefinable(algorithm) ? pointerOf(definition.timestamp?.from) : null;
  const withTime =
    path === null ? [{ text: sent.toString() }] : withVariables(edited(sent, path, `${PLACE}0`), [time!], '');
  if (withTime === null) return null;
  const made = { before, body: withTime, after: [] };
  switch (algorithm) {
    case 'token':
      return { ...made, headers: [...headers, [header!, [{ text: prefix }, secret!]]] };
    case 'basic':
      before.push('TOKEN=$(printf %s "$WEIR_SECRET" | openssl base64 -A)');
      return { ...made, headers: [...headers, [header!, [{ text: 'Basic ' }, token!]]] };
    case 'mailgun': {
      before.push('TOKEN=$(openssl rand -hex 25)', `SIGNATURE=${digest(definition, [time!, token!])}`);
      const member = { timestamp: `${PLACE}0`, token: `${PLACE}1`, signature: `${PLACE}2` };
      const parts = withVariables(edited(sent, ['signature'], member), [time!, token!, signature!], '"');
      return parts && { ...made, body: parts, headers };
    }
    case 'microsoft-graph': {
      // As JSON writes it.
      before.push(`STATE=$(printf %s "$WEIR_SECRET" | sed 's/[\\"]/\\\\&/g')`);
      const parts = withVariables(withState(sent, `${PLACE}0`), [{ name: 'STATE' }], '"');
      return parts && { ...made, body: parts, headers };
    }
  }
  const content = algorithm === 'twilio' ? formContent(url, sent) : contentOf(definition, url);
  if (content === null) return null;
  return { ...made, after: signed(definition, content), headers: [...headers, [header!, headerValue(definition)]] };
}

/** Lines that set SIGNATURE. */
function signed(definition: SchemeDefinition, content: readonly ShellPart[]): string[] {
  const set = `SIGNATURE=${digest(definition, content)}`;
  // OpenSSL 3.0 signs with Ed25519 only what is in a file.
  if (definition.algorithm === 'ed25519')
    return ['FILE=$(mktemp)', `printf %s ${shellText(content)} > "$FILE"`, set, 'rm "$FILE"'];
  if (definition.secret !== 'base64' || isAsymmetric(definition.algorithm)) return [set];
  return [`KEY=$(printf %s "\${WEIR_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')`, set];
}

function digest({ algorithm, secret, encoding = 'hex' }: SchemeDefinition, content: readonly ShellPart[]): string {
  const encode = {
    hex: `od -An -v -tx1 | tr -d ' \\n'`,
    base64: 'openssl base64 -A',
    base64url: `openssl base64 -A | tr '+/' '-_' | tr -d =`,
  }[encoding];
  if (algorithm === 'ed25519')
    return `$(openssl pkeyutl -sign -rawin -inkey "$WEIR_PRIVATE_KEY" -in "$FILE" | ${encode})`;
  const message = `printf %s ${shellText(content)} | openssl dgst`;
  if (algorithm === 'ecdsa-p256') return `$(${message} -sha256 -sign "$WEIR_PRIVATE_KEY" -binary | ${encode})`;
  const key = {
    text: '-hmac "$WEIR_SECRET"',
    hex: '-mac HMAC -macopt "hexkey:$WEIR_SECRET"',
    base64: '-mac HMAC -macopt "hexkey:$KEY"',
  }[secret === 'text-or-base64' ? 'text' : (secret ?? 'text')];
  const hash = algorithm === 'twilio' ? 'sha1' : algorithm === 'mailgun' ? 'sha256' : algorithm.slice('hmac-'.length);
  return `$(${message} -${hash} ${key} ${encoding === 'hex' ? `-r | cut -d' ' -f1` : `-binary | ${encode}`})`;
}

function contentOf({ content = '{body}' }: SchemeDefinition, url: string): ShellPart[] {
  const values: Record<string, ShellPart> = {
    '{body}': body!,
    '{timestamp}': time!,
    '{id}': id!,
    '{url}': { text: url },
    '{method}': { text: 'POST' },
  };
  const parts = content.split(/(\{(?:body|timestamp|id|url|method)\})/).filter((text) => text !== '');
  return parts.map((text) => values[text] ?? { text });
}

function formContent(url: string, sent: Buffer): ShellPart[] | null {
  const text = twilioContent(url, sent);
  // What a form writes as %00.
  return text === null || text.includes('\0') ? null : [{ text }];
}

function headerValue({ timestamp, items = '', pair = '', key = '', prefix = '' }: SchemeDefinition): ShellPart[] {
  const field = fieldOf(timestamp?.from);
  const item = [{ text: `${pair === '' ? '' : key + pair}${prefix}` }, signature!];
  return field === null ? item : [{ text: `${field}${pair}` }, time!, { text: items }, ...item];
}

/** The body with a member; null: it is not a JSON object. */
function edited(sent: Buffer, path: readonly string[], member: unknown): string | null {
  try {
    return withMember(sent, path, member).toString();
  } catch (error) {
    if (error instanceof CannotSign) return null;
    throw error;
  }
}

/** The notifications with another clientState; null: the body has none. */
function withState(sent: Buffer, clientState: string): string | null {
  try {
    const given = JSON.parse(jsonText(sent));
    return JSON.stringify({ ...given, value: given.value.map((one: object) => ({ ...one, clientState })) });
  } catch {
    return null;
  }
}

/** Writes the variables in the places of a JSON text. @param quote around each value */
function withVariables(text: string | null, variables: readonly ShellPart[], quote: '"' | ''): ShellPart[] | null {
  if (text === null) return null;
  const parts = text.split(new RegExp(`"${PLACE}(\\d)"`));
  const last = parts.length - 1;
  return parts.map((part, i) => {
    if (i % 2 === 1) return variables[Number(part)]!;
    return { text: `${i > 0 ? quote : ''}${part}${i < last ? quote : ''}` };
  });
}
