/**
 * Signed requests as shell commands: curl, and openssl with the secret in $WEIR_SECRET. `signRequest` does the same in the server, also for
 * the schemes that have no command.
 */
import { isDefinable, type SchemeDefinition } from '../../model/signatures/definition.ts';
import { isAsymmetric } from '../../model/signatures/keys.ts';
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import { fieldOf, headerOf, pointerOf } from '../../model/signatures/sources.ts';
import { selectedDefinition } from '../../model/webhook-schemes.ts';

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
  /** Header that gets a new id, so that the request is not a duplicate. Null: only the header of the scheme gets one. */
  idHeader?: string | null;
}

/**
 * A command that sends a body, signed. Null when no shell can represent the body, and for a scheme that is code (twilio, mailgun,
 * microsoft-graph), has its time in the body, or has a private key: `weir send` signs by them.
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
  if (header === undefined || !isDefinable(algorithm) || isAsymmetric(algorithm)) return null;
  if (pointerOf(timestamp?.from) !== null) return null;
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
  if (definition.secret !== 'base64') return [set];
  return [`KEY=$(printf %s "\${WEIR_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')`, set];
}

function digest({ algorithm, secret, encoding = 'hex' }: SchemeDefinition, content: readonly ShellPart[]): string {
  const encode = {
    hex: `od -An -v -tx1 | tr -d ' \\n'`,
    base64: 'openssl base64 -A',
    base64url: `openssl base64 -A | tr '+/' '-_' | tr -d =`,
  }[encoding];
  const message = `printf %s ${shellText(content)} | openssl dgst`;
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

/** Characters that terminals do not show or that control them: controls, formats such as bidirectional overrides, line separators. */
const invisible = /[\p{C}\p{Zl}\p{Zp}]/u;
/** Escaped in `$'...'`: invisible characters, quote, backslash, and `!`, which an interactive shell may expand there. */
const escapedInAnsi = /[\p{C}\p{Zl}\p{Zp}'\\!]/gu;

/**
 * Quotes any text as one word of bash, zsh or ksh; without invisible characters, of any POSIX shell. Invisible characters are escaped as
 * `$'\x1b'`: a terminal acts on some control characters of a pasted line even within quotes. A word cannot contain NUL.
 */
export function shellWord(text: string): string {
  // `=` needs quotes: zsh replaces a word `=ls` with the path of ls.
  if (/^[A-Za-z0-9_./:@%+-]+$/.test(text)) return text;
  if (!invisible.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  return `$'${text.replace(escapedInAnsi, escapedBytes)}'`;
}

/** Escapes the UTF-8 bytes of one character: `\xNN` means a byte in every locale, `\u` does not. */
function escapedBytes(character: string): string {
  if (character === '\n') return '\\n';
  return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}

/** A literal, or the value of a variable. */
type ShellPart = { text: string } | { name: string };

/** Characters that a shell reads between double quotes as they are. */
const plain = /^[ #%&()*+,\-./0-9:;<=>?@A-Z[\]^_a-z{|}~]*$/;
/** Text that a shell would read as a part of the variable before it; zsh has `$A:h` and `$A[1]`. */
const continues = /^[\w:[]/;

/** Writes parts as one word. */
function shellText(parts: readonly ShellPart[]): string {
  if (!parts.some((part) => 'name' in part))
    return shellWord(parts.map((part) => ('text' in part ? part.text : '')).join(''));
  if (!parts.every((part) => 'name' in part || plain.test(part.text)))
    return parts.map((part) => ('name' in part ? `"$${part.name}"` : shellWord(part.text))).join('');
  const written = parts.map((part, i) => {
    if ('text' in part) return part.text;
    const next = parts[i + 1];
    return next !== undefined && 'text' in next && continues.test(next.text) ? `\${${part.name}}` : `$${part.name}`;
  });
  return `"${written.join('')}"`;
}
