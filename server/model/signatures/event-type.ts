/** Where a request has the type of its event: `header:x-github-event`, `json:/type`, or two joined by `+`. */
import { compilePath, type PathStep, SCANNED_CHARACTERS_MAX, scanJson } from './json-scan.ts';
import { presetNamed, presets } from './presets.ts';
import { HEADER_NAME, HEADER_WANTED, headerOf, pointerOf } from './sources.ts';
import { isStoredHeader } from './stored-headers.ts';

/** As `event_type_from`: the events of the webhook have no type, although its signature scheme has a default. */
const NO_EVENT_TYPE = 'none';
/** Longest type, in UTF-16 units. Column events.event_type has the same limit. */
export const EVENT_TYPE_CHARACTERS_MAX = SCANNED_CHARACTERS_MAX;
export const EVENT_TYPE_FROM_CHARACTERS_MAX = 1_000;

const header = /^header:[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const pointer = /^json:(?:\/(?:[^/~\p{Cc}]|~[01]){1,100}){1,8}$/u;
const PARTS_MAX = 2;
/** Controls, and what Postgres cannot store: NUL and unpaired surrogates. */
const unprintable = /[\p{Cc}\p{Cs}]/gu;

type Part = { header: string } | { path: readonly PathStep[] };

/** What a type is read from. */
interface TypedRequest {
  /** The first value of a header, by its name in lower case. */
  header(name: string): string | undefined;
}

/** Reads the type of an event, at most EVENT_TYPE_CHARACTERS_MAX UTF-16 units; null if the request has none. Never throws. */
export type EventTypeReader = (request: TypedRequest, body: Uint8Array) => string | null;

/** The text with the names of headers in lower case, as it is stored. */
export function normalEventTypeFrom(text: string): string {
  return partsOf(text.trim())
    .map((part) => (/^header:/i.test(part) ? part.toLowerCase() : part))
    .join('+');
}

/** What is wrong with an `event_type_from`; null: nothing. */
export function eventTypeFault(text: string): string | null {
  if (text === NO_EVENT_TYPE) return null;
  const parts = partsOf(text);
  if (parts.length > PARTS_MAX || parts.some((part) => parsePart(part) === null))
    return 'Give header:NAME, json:/POINTER, two of them joined by +, or none.';
  if (parts.some((part) => header.test(part) && !HEADER_NAME.test(headerOf(part)!))) return HEADER_WANTED;
  const hidden = parts.find((part) => header.test(part) && !isStoredHeader(headerOf(part)!) && !isSourceOfPreset(part));
  return hidden === undefined ? null : `A type cannot be read from ${hidden}: such headers are never stored.`;
}

/** Bitbucket's X-Event-Key has the name of a credential, but is not one. */
function isSourceOfPreset(part: string): boolean {
  return presets.some(({ eventType }) => eventType === part);
}

/** Splits at the + between two sources. A plus may also be in a name. */
function partsOf(text: string): string[] {
  return text.split(/\+(?=header:|json:)/i);
}

/** Parses one source; null: the text is neither `header:NAME` nor `json:/POINTER`. */
export function parsePart(part: string): Part | null {
  if (header.test(part)) return { header: headerOf(part)! };
  return pointer.test(part) ? { path: compilePath(pointerOf(part)!) } : null;
}

/**
 * Returns the request with another type, written where its type is read from. With two sources, the text after the first dot of the type is
 * the value of the second source, if the request has a value there. Null: the type would be in the body, which is not a JSON object.
 * @param source as eventTypeFromOf returns it
 */
export function typedRequest<Request extends { headers: Readonly<Record<string, string>>; body: string }>(
  source: string,
  type: string,
  request: Request,
): (Pick<Request, 'body'> & { headers: Record<string, string> }) | null {
  const headers = { ...request.headers };
  const [first, second] = partsOf(source) as [string, string?];
  const parsed = objectOf(request.body);
  const has = (part: string) =>
    (headerOf(part) === null ? valueAt(parsed, part) : headers[headerOf(part)!]) !== undefined;
  const dot = second !== undefined && has(second) ? type.indexOf('.') : -1;
  const values: [string, string | undefined][] = [[first, dot < 0 ? type : type.slice(0, dot)]];
  if (second !== undefined) values.push([second, dot < 0 ? undefined : type.slice(dot + 1)]);
  for (const [part, value] of values) {
    const name = headerOf(part);
    if (name !== null) {
      if (value === undefined) delete headers[name];
      else headers[name] = value;
    } else if (parsed === null) {
      if (value !== undefined) return null;
    } else setMember(parsed, pointerOf(part)!, value);
  }
  return { headers, body: parsed === null ? request.body : JSON.stringify(parsed) };
}

type Json = Record<string, unknown>;

/** The JSON object of a body; null: it is not one. */
export function objectOf(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text.replace(/^\ufeff/, ''));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
  } catch {
    return null;
  }
}

function valueAt(object: Json | null, part: string): unknown {
  return pointerOf(part)!.reduce<unknown>((value, step) => memberOf(value, step), object);
}

/** Own members only: a pointer may name `__proto__`. */
function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Json)[name] : undefined;
}

/** Sets the member at a path; undefined removes it. */
export function setMember(object: Json, path: readonly string[], value: unknown): void {
  const steps = [...path];
  const last = steps.pop()!;
  let parent = object;
  for (const step of steps) {
    const next = memberOf(parent, step);
    if ((typeof next !== 'object' || next === null) && value === undefined) return;
    parent[step] = typeof next === 'object' && next !== null ? next : {};
    parent = parent[step] as Json;
  }
  if (value === undefined) delete parent[last];
  else parent[last] = value;
}

/** The source in effect: that of the webhook, else of its scheme; null: none. */
export function eventTypeFromOf(own: string | null, schemeName: string): string | null {
  const source = own ?? presetNamed(schemeName)?.eventType ?? NO_EVENT_TYPE;
  return source === NO_EVENT_TYPE ? null : source;
}

/**
 * Compiles the source in effect; null: the events have no type. With two sources, the reader joins the values that exist with a dot: GitHub's
 * `issues` with action `opened` is `issues.opened`; its `push`, which has no action, is `push`.
 * @param scheme A type is never read from its signature headers, because they are never stored.
 */
export function eventTypeReader(
  own: string | null,
  scheme: { name: string; headers: readonly string[] },
): EventTypeReader | null {
  const source = eventTypeFromOf(own, scheme.name);
  if (source === null) return null;
  const parts = partsOf(source)
    .map(parsePart)
    .filter((part) => part !== null && !('header' in part && scheme.headers.includes(part.header))) as Part[];
  const [first, second] = parts;
  if (first === undefined) return null;
  if (second === undefined) return (request, body) => readPart(first, request, body);
  return (request, body) => {
    const one = readPart(first, request, body);
    const other = readPart(second, request, body);
    if (one === null || other === null) return one ?? other;
    return cut(`${one}.${other}`);
  };
}

function readPart(part: Part, request: TypedRequest, body: Uint8Array): string | null {
  const value = 'header' in part ? request.header(part.header) : scanJson(body, part.path);
  if (value === undefined || value === null) return null;
  return cut(value.slice(0, EVENT_TYPE_CHARACTERS_MAX).replace(unprintable, '').trim()) || null;
}

/** Cuts to the limit, between characters. */
function cut(text: string): string {
  if (text.length <= EVENT_TYPE_CHARACTERS_MAX) return text;
  return text.slice(0, EVENT_TYPE_CHARACTERS_MAX).replace(/\p{Cs}$/u, '');
}
