/**
 * Signed requests as shell commands: curl, and openssl with the secret in $WEIR_SECRET or, for a scheme with a public key, the private key
 * in the file $WEIR_PRIVATE_KEY. signRequest of the server does the same, and signs also by the schemes that no command is written for.
 */
import { isDefinable, type SchemeDefinition } from '../../model/signatures/definition.ts';
import { isAsymmetric } from '../../model/signatures/keys.ts';
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import { fieldOf, headerOf, pointerOf } from '../../model/signatures/sources.ts';
import { selectedDefinition } from '../../model/webhook-schemes.ts';
import { type ShellPart, shellText, shellWord } from './shell.ts';

/** The members of a webhook that say how its requests are signed. */
export type SignedTarget = Parameters<typeof selectedDefinition>[0] & { has_secret: boolean };

/** How a command signs; `none`: the webhook verifies no signature; null: this build does not know the scheme. */
export function commandDefinition(webhook: SignedTarget): SchemeDefinition | 'none' | null {
  const definition = selectedDefinition(webhook);
  if (definition === null || webhook.signature_scheme !== DEFAULT_SCHEME) return definition;
  // The default scheme accepts two headers unless the webhook names one.
  return webhook.has_secret ? { ...definition, header: webhook.signature_header ?? 'X-Hub-Signature-256' } : 'none';
}

interface SignedCurl {
  url: string;
  /** UTF-8 text. */
  body: Buffer;
  contentType: string;
  definition: SchemeDefinition | 'none' | null;
  /** More headers, names in lower case. Those of the signature replace them. */
  headers?: Readonly<Record<string, string>>;
  /** Header that gets a new id, so that the request is not a duplicate. Null: only that of the scheme. */
  idHeader?: string | null;
}

/**
 * A command that sends a body, signed. Null when no shell can represent the body, and for a scheme that is code (twilio, mailgun,
 * microsoft-graph) or has its time in the body: `weir send` signs by them.
 */
export function signedCurl(wanted: SignedCurl): string | null {
  const { url, body, contentType, definition, headers = {}, idHeader = null } = wanted;
  if (body.includes(0) || definition === null) return null;
  const signing = definition === 'none' ? { before: [], after: [], headers: [] } : signingOf(definition, url);
  if (signing === null) return null;
  const sent = new Map(signing.headers);
  const before = new Set(signing.before);
  if (idHeader !== null && !sent.has(idHeader)) {
    before.add(SET_ID);
    sent.set(idHeader, [id]);
  }
  const signed = new Set([...sent.keys()].map((name) => name.toLowerCase()));
  // curl leaves out a header without a value.
  for (const [name, value] of Object.entries(headers))
    if (!signed.has(name) && value !== '') sent.set(name, [{ text: value }]);
  const fields = [...sent].map(([name, value]) => `  -H ${shellText([{ text: `${name}: ` }, ...value])} \\`);
  return [
    ...before,
    `BODY=${shellWord(body.toString())}`,
    ...signing.after,
    `curl ${shellWord(url)} \\`,
    ...fields,
    // --data-binary would read a file when the body begins with @.
    `  -H ${shellWord(`Content-Type: ${contentType}`)} --data-raw "$BODY"`,
  ].join('\n');
}

const SET_ID = 'ID=$(openssl rand -hex 16)';
const id = { name: 'ID' };
const time = { name: 'TIMESTAMP' };

interface Signing {
  /** Lines before and after that of the body. */
  before: string[];
  after: string[];
  headers: [name: string, value: ShellPart[]][];
}

function signingOf(definition: SchemeDefinition, url: string): Signing | null {
  const { algorithm, header, prefix = '', timestamp } = definition;
  if (header === undefined || !isDefinable(algorithm) || pointerOf(timestamp?.from) !== null) return null;
  const before: string[] = [];
  const headers: Signing['headers'] = [];
  const idHeader = headerOf(definition.id);
  const timeHeader = headerOf(timestamp?.from);
  if (idHeader !== null) {
    before.push(SET_ID);
    headers.push([idHeader, [id]]);
  }
  if (timestamp !== undefined) before.push(`TIMESTAMP=$(date +%s)${timestamp.unit === 'ms' ? '000' : ''}`);
  if (timeHeader !== null) headers.push([timeHeader, [time]]);
  if (algorithm === 'token')
    return { before, after: [], headers: [...headers, [header, [{ text: prefix }, { name: 'WEIR_SECRET' }]]] };
  if (algorithm === 'basic') {
    before.push('TOKEN=$(printf %s "$WEIR_SECRET" | openssl base64 -A)');
    return { before, after: [], headers: [...headers, [header, [{ text: 'Basic ' }, { name: 'TOKEN' }]]] };
  }
  return {
    before,
    after: signed(definition, contentOf(definition, url)),
    headers: [...headers, [header, headerValue(definition)]],
  };
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
  const hash = algorithm.slice('hmac-'.length);
  return `$(${message} -${hash} ${key} ${encoding === 'hex' ? `-r | cut -d' ' -f1` : `-binary | ${encode}`})`;
}

function contentOf({ content = '{body}' }: SchemeDefinition, url: string): ShellPart[] {
  const values: Record<string, ShellPart> = {
    '{body}': { name: 'BODY' },
    '{timestamp}': time,
    '{id}': id,
    '{url}': { text: url },
    '{method}': { text: 'POST' },
  };
  const parts = content.split(/(\{(?:body|timestamp|id|url|method)\})/).filter((text) => text !== '');
  return parts.map((text) => values[text] ?? { text });
}

function headerValue({ timestamp, items = '', pair = '', key = '', prefix = '' }: SchemeDefinition): ShellPart[] {
  const field = fieldOf(timestamp?.from);
  const item = [{ text: `${pair === '' ? '' : key + pair}${prefix}` }, { name: 'SIGNATURE' }];
  return field === null ? item : [{ text: `${field}${pair}` }, time, { text: items }, ...item];
}
