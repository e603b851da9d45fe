/** Signs requests by the definition of a signature scheme. Uses no k6 modules, so that any runtime can test it. */

/** The members of a scheme's definition that decide how a request is signed. */
export interface Scheme {
  algorithm: string;
  header?: string | undefined;
  items?: string | undefined;
  pair?: string | undefined;
  key?: string | undefined;
  prefix?: string | undefined;
  encoding?: 'hex' | 'base64' | 'base64url' | undefined;
  content?: string | undefined;
  timestamp?: { from: string; unit?: 's' | 'ms' | undefined } | undefined;
  secret?: 'text' | 'hex' | 'base64' | 'text-or-base64' | undefined;
  id?: string | undefined;
}

/** `hmac` of k6/crypto and `b64decode` of k6/encoding, or equivalent functions. */
export interface Primitives {
  hmac(hash: Hash, key: string | ArrayBuffer, data: string, encoding: 'hex' | 'base64' | 'base64url'): string;
  b64decode(text: string, variant: 'rawstd'): ArrayBuffer;
}

type Hash = 'sha1' | 'sha256' | 'sha512';

export interface Unsigned {
  /** Signed as UTF-8, which is how k6 sends a string. */
  body: string;
  secret: string;
  /** URL of the webhook as Weir knows it. */
  url: string;
  /** Id of the event, for schemes with one. */
  id: string;
  timeMs: number;
}

/** Weir's own scheme (specification, section 4). */
export const defaultScheme: Scheme = { algorithm: 'hmac-sha256', header: 'X-Hub-Signature-256', prefix: 'sha256=' };

/** Whether a script can sign by the scheme: an HMAC, with the time in a header. */
export function isSupported({ algorithm, timestamp }: Scheme): boolean {
  return /^hmac-sha(1|256|512)$/.test(algorithm) && !timestamp?.from.startsWith('json:');
}

/** Whether a signed request can be sent again: a time expires, and an event whose id is stored is a duplicate. */
export function isRepeatable({ timestamp, id }: Scheme): boolean {
  return timestamp === undefined && !id?.startsWith('header:');
}

/** Headers that carry the signature of a POST request, and its time and id. The scheme must be supported. */
export function signatureHeaders(scheme: Scheme, request: Unsigned, { hmac, b64decode }: Primitives) {
  const { algorithm, header, items, pair, key, prefix = '', encoding = 'hex', content = '{body}', timestamp } = scheme;
  const time = String(timestamp?.unit === 'ms' ? request.timeMs : Math.floor(request.timeMs / 1_000));
  const values: Record<string, string> = {
    body: request.body,
    timestamp: time,
    id: request.id,
    url: request.url,
    method: 'POST',
  };
  const text = content.replace(/\{(body|timestamp|id|url|method)\}/g, (_, name: string) => values[name]!);
  const hash = algorithm.slice('hmac-'.length) as Hash;
  const signature = prefix + hmac(hash, keyOf(scheme.secret, request.secret, b64decode), text, encoding);
  const item = pair ? `${key ?? ''}${pair}${signature}` : signature;

  const headers: Record<string, string> = {};
  const [place, name = ''] = timestamp?.from.split(':') ?? [];
  if (place === 'header') headers[name] = time;
  if (scheme.id?.startsWith('header:')) headers[scheme.id.slice('header:'.length)] = request.id;
  headers[header ?? defaultScheme.header!] = place === 'field' ? `${name}${pair}${time}${items}${item}` : item;
  return headers;
}

function keyOf(encoding: Scheme['secret'], secret: string, b64decode: Primitives['b64decode']): string | ArrayBuffer {
  if (encoding === 'hex')
    return new Uint8Array((secret.match(/../g) ?? []).map((digits) => Number.parseInt(digits, 16))).buffer;
  if (encoding !== 'base64') return secret;
  const bare = secret.replace(/^whsec_/, '').replace(/=/g, '');
  return b64decode(bare.replace(/-/g, '+').replace(/_/g, '/'), 'rawstd');
}
