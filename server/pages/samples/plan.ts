/** What the samples in programming languages need to know of a signed request: the parts that are signed, and the headers. */
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { fieldOf, headerOf } from '../../model/signatures/sources.ts';

interface Plan {
  url: string;
  /** JSON text that is sent. */
  body: string;
  hash: 'sha256' | 'sha1' | 'sha512';
  encoding: 'hex' | 'base64';
  secret: 'text' | 'hex' | 'base64';
  /** Literals and values, in the order in which they are signed. Empty: the request is not signed. */
  content: readonly Part[];
  /** Headers besides the content type. */
  headers: readonly Header[];
  usesId: boolean;
  usesTime: boolean;
  milliseconds: boolean;
}

type Name = 'body' | 'timestamp' | 'id' | 'signature';
export type Part = { text: string } | { name: Name };

interface Header {
  name: string;
  value: readonly Part[];
}

/** Characters that every language writes in the same way between quotes. */
const plain = /^[ !#%&()*+,\-./0-9:;<=>?@A-Z[\]^_a-z{|}~]*$/;

/** Null for a scheme that is not an HMAC over the body, the time and an id. @param definition `none`: the webhook verifies no signature */
export function planOf(url: string, body: string, definition: SchemeDefinition | 'none'): Plan | null {
  const unsigned = { url, body, hash: 'sha256', encoding: 'hex', secret: 'text' } as const;
  if (definition === 'none')
    return { ...unsigned, content: [], headers: [], usesId: false, usesTime: false, milliseconds: false };
  const { algorithm, header, timestamp, id, items = '', pair = '', key = '', prefix = '' } = definition;
  const { content: signed = '{body}', encoding = 'hex' } = definition;
  const secret = definition.secret === 'text-or-base64' ? 'text' : (definition.secret ?? 'text');
  const hash = algorithm.replace('hmac-', '');
  if (hash !== 'sha256' && hash !== 'sha1' && hash !== 'sha512') return null;
  if (header === undefined || encoding === 'base64url' || /\{(url|method)\}/.test(signed)) return null;
  if (timestamp?.from.startsWith('json:') || id?.startsWith('json:')) return null;
  const timeField = fieldOf(timestamp?.from);
  const item = `${pair === '' ? '' : key + pair}${prefix}{signature}`;
  const content = partsOf(signed);
  const value = partsOf(timeField === null ? item : `${timeField}${pair}{timestamp}${items}${item}`);
  const parts = [...content, ...value];
  if (!parts.every((part) => 'name' in part || plain.test(part.text))) return null;
  const idHeader = headerOf(id);
  const timestampHeader = headerOf(timestamp?.from);
  const headers: Header[] = [];
  if (idHeader !== null) headers.push({ name: idHeader, value: [{ name: 'id' }] });
  if (timestampHeader !== null) headers.push({ name: timestampHeader, value: [{ name: 'timestamp' }] });
  headers.push({ name: header, value });
  const usesTime = timestampHeader !== null || parts.some((part) => 'name' in part && part.name === 'timestamp');
  const milliseconds = timestamp?.unit === 'ms';
  return { url, body, hash, encoding, secret, content, headers, usesId: idHeader !== null, usesTime, milliseconds };
}

function partsOf(template: string): Part[] {
  return template
    .split(/(\{(?:body|timestamp|id|signature)\})/)
    .filter((text) => text !== '')
    .map((text) => (/^\{\w+\}$/.test(text) ? { name: text.slice(1, -1) as Name } : { text }));
}
