/** What every sample of a signed request needs to know: the parts that are signed, and the headers. */
import type { SchemeDefinition } from '../signatures/definition.ts';
import { fieldOf, headerOf } from '../signatures/scheme.ts';

export interface Plan {
  url: string;
  /** JSON text that is sent. */
  body: string;
  hash: 'sha256' | 'sha1' | 'sha512';
  encoding: 'hex' | 'base64';
  secret: 'text' | 'hex' | 'base64';
  /** Literals and values, in the order in which they are signed. */
  content: readonly Part[];
  header: string;
  /** The same of the signature header. */
  value: readonly Part[];
  timestampHeader: string | null;
  idHeader: string | null;
  milliseconds: boolean;
}

export type Name = 'body' | 'timestamp' | 'id' | 'signature';
export type Part = { text: string } | { name: Name };

/** Characters that every language writes in the same way between quotes. */
const plain = /^[ !#%&()*+,\-./0-9:;<=>?@A-Z[\]^_a-z{|}~]*$/;

/** Null for a scheme that is not an HMAC over the body, the time and an id. @param definition null: the webhook verifies no signature */
export function planOf(url: string, body: string, definition: SchemeDefinition | null): Plan | null {
  const base = { url, body, hash: 'sha256', encoding: 'hex', secret: 'text', milliseconds: false } as const;
  if (definition === null)
    return { ...base, content: [], header: '', value: [], timestampHeader: null, idHeader: null };
  const { algorithm, header, timestamp, id, items = '', pair = '', key = '', prefix = '' } = definition;
  const { content = '{body}', encoding = 'hex', secret = 'text' } = definition;
  const hash = algorithm.replace('hmac-', '');
  if (hash !== 'sha256' && hash !== 'sha1' && hash !== 'sha512') return null;
  if (header === undefined || encoding === 'base64url' || /\{(url|method)\}/.test(content)) return null;
  if (timestamp?.from.startsWith('json:') || id?.startsWith('json:')) return null;
  const timeField = fieldOf(timestamp?.from);
  const item = `${pair === '' ? '' : key + pair}${prefix}{signature}`;
  const value = timeField === null ? item : `${timeField}${pair}{timestamp}${items}${item}`;
  const plan: Plan = {
    ...base,
    hash,
    encoding,
    secret,
    content: partsOf(content),
    header,
    value: partsOf(value),
    timestampHeader: headerOf(timestamp?.from),
    idHeader: headerOf(id),
    milliseconds: timestamp?.unit === 'ms',
  };
  const isPlain = [...plan.content, ...plan.value].every((part) => 'name' in part || plain.test(part.text));
  return isPlain ? plan : null;
}

function partsOf(template: string): Part[] {
  return template
    .split(/(\{(?:body|timestamp|id|signature)\})/)
    .filter((text) => text !== '')
    .map((text) => (/^\{\w+\}$/.test(text) ? { name: text.slice(1, -1) as Name } : { text }));
}

export const usesTime = ({ content, value, timestampHeader }: Plan) =>
  timestampHeader !== null || [...content, ...value].some((part) => 'name' in part && part.name === 'timestamp');

/** The parts as one expression. */
export function joined(parts: readonly Part[], operator: string, nameOf: (name: Name) => string): string {
  return parts.map((part) => ('name' in part ? nameOf(part.name) : `"${part.text}"`)).join(operator);
}

/** Header names and expressions of their values. */
export function headersOf(plan: Plan, operator: string, nameOf: (name: Name) => string): [string, string][] {
  const { content, header, value, timestampHeader, idHeader } = plan;
  return [
    ...(idHeader === null ? [] : [[idHeader, nameOf('id')] as [string, string]]),
    ...(timestampHeader === null ? [] : [[timestampHeader, nameOf('timestamp')] as [string, string]]),
    ...(content.length === 0 ? [] : [[header, joined(value, operator, nameOf)] as [string, string]]),
  ];
}
