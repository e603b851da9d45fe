/**
 * Forms and filters: converts fields to API input, and refusals to errors of fields. Values that cannot be parsed are passed unchanged,
 * so that the schema rejects them.
 */
import type { Problem } from '../../base/http/problem.ts';
import { etagOf } from '../../manage/api/operation.ts';
import { type ProblemCode, problems } from '../../model/errors.ts';
import type { CallArguments, Called, FormFeedback, Invalid } from '../page.ts';
import { plural, utc } from '../show.ts';

export function field(form: URLSearchParams, name: string): string {
  // Browsers send line ends of text areas as CR LF.
  return (form.get(name) ?? '').replaceAll('\r\n', '\n');
}

/** The texts of these fields as they were typed; '' for one that the form does not have. */
export function textsOf<Name extends string>(form: URLSearchParams, names: readonly Name[]): Record<Name, string> {
  return Object.fromEntries(names.map((name) => [name, form.get(name) ?? ''])) as Record<Name, string>;
}

/** Null when the field is empty. */
export function optional(form: URLSearchParams, name: string): string | null {
  const value = field(form, name).trim();
  return value === '' ? null : value;
}

/** Null when the field is empty; text that is not a number stays text. */
export function number(form: URLSearchParams, name: string): number | string | null {
  const value = optional(form, name);
  return value !== null && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
}

/** The field of partials/confirm-identity: the current password; nothing when the field is empty. */
export function confirmation(form: URLSearchParams): { current_password?: string } {
  const password = form.get('current_password');
  return password ? { current_password: password } : {};
}

/** The field of a refused confirmation. @param key of the form, when a page has several. */
export function confirmationError(key?: string): Partial<Record<ProblemCode, string>> {
  const field = key === undefined ? 'current_password' : `current_password-${key}`;
  return { reauthentication_required: field, sign_in_limited: field };
}

/** All values of a name: checkboxes or a multiple choice. */
export function list(form: URLSearchParams, name: string): string[] {
  return form.getAll(name).filter((value) => value !== '');
}

/** The version that the form was rendered from, in its hidden field `was`: a JSON document. */
export function basis(form: URLSearchParams): Pick<CallArguments, 'ifMatch'> {
  const was = form.get('was');
  return was ? { ifMatch: etagOf(was) } : {};
}

/**
 * A refused form with the version for its hidden field. After a conflict that is the current version, so submitting again overwrites the
 * other change, and the refusal says what changed.
 */
export async function withVersion<Refused extends Invalid | Problem>(
  form: URLSearchParams,
  refused: Refused,
  current: () => Promise<Called>,
): Promise<{ was: string | null; refused: Refused }> {
  const was = form.get('was');
  if (refused.kind !== 'problem' || refused.code !== 'precondition_failed') return { was, refused };
  const now = await current();
  if (now.kind !== 'done') return { was: null, refused };
  const changes = changesOf(was ?? '', now.text);
  const detail = `It was changed after you opened this form${changes === '' ? '' : `: ${changes}`}. Save again to overwrite that.`;
  return { was: now.text, refused: { ...refused, detail } };
}

const VALUE_CHARACTERS_MAX = 60;

/** What differs between two versions, each a JSON document, in words. */
function changesOf(was: string, now: string): string {
  const [before, after] = [was, now].map((text) => (jsonOf(text) ?? null) as object | null) as [object, object];
  const changed = differences(before, after).filter(({ name, changed }) => changed && name !== 'updated_at');
  const shown = (value: string | null) =>
    value === null
      ? 'none'
      : `“${value.length > VALUE_CHARACTERS_MAX ? `${value.slice(0, VALUE_CHARACTERS_MAX)}…` : value}”`;
  return changed
    .map(({ name, before, after }) => `${name.replaceAll('_', ' ')} from ${shown(before)} to ${shown(after)}`)
    .join('; ');
}

/** The value of a JSON text; undefined: it is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** For a form that is shown for the first time. */
export const noErrors: FormFeedback = { errors: {}, status: 200 };

/** For a field that the page itself validates. */
export function fieldError(field: string, sentence: string): FormFeedback {
  return { errors: { [field]: sentence }, status: 422 };
}

/** @param fieldOf maps a problem code to its field; any other problem concerns the form as a whole. */
export function formErrors(
  refused: Exclude<Called, { kind: 'done' }>,
  fieldOf: Partial<Record<ProblemCode, string>> = {},
): FormFeedback {
  if (refused.kind === 'invalid') return { ...noErrors, errors: refused.errors, status: 422 };
  const { code, retryAfterSeconds } = refused;
  const { status, detail: usual } = problems[code];
  const detail = refused.detail ?? usual;
  const wait = retryAfterSeconds === undefined ? '' : ` Try again in ${plural(retryAfterSeconds, 'second')}.`;
  return { errors: { [fieldOf[code] ?? '']: detail + wait }, status, retryAfterSeconds };
}

/** Returns the named parameters that are present. */
export function filtersOf<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const given = names.flatMap((name) => {
    const value = query.get(name)?.trim();
    return value ? [[name, value] as const] : [];
  });
  return Object.fromEntries(given) as Partial<Record<Name, string>>;
}

const EMPTY_PARAMETER = /(?:^|&)[^&=]*=(?:&|$)/;

/**
 * The address without empty parameters; null if it has none. A browser without JavaScript sends each empty field of a filter, but the
 * URL is what users bookmark and share.
 */
export function tidyAddress({ path, query }: { path: string; query: string }): string | null {
  if (!EMPTY_PARAMETER.test(query)) return null;
  const given = query.split('&').filter((pair) => !EMPTY_PARAMETER.test(pair));
  return given.length === 0 ? path : `${path}?${given.join('&')}`;
}

interface Difference {
  name: string;
  /** As text; null when the member did not exist. */
  before: string | null;
  after: string | null;
  changed: boolean;
}

/** Returns the members that have a value in one of the two states, changed members first. */
export function differences(before: object | null, after: object | null): Difference[] {
  const [old, now] = [before ?? {}, after ?? {}] as Record<string, unknown>[];
  const names = [...new Set([...Object.keys(old!), ...Object.keys(now!)])];
  const all = names
    .map((name): Difference => {
      const [was, is] = [text(old![name]), text(now![name])];
      return { name, before: was, after: is, changed: was !== is };
    })
    .filter(({ before, after }) => (before ?? after) !== null);
  return [...all.filter(({ changed }) => changed), ...all.filter(({ changed }) => !changed)];
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Strings stay as they are, except times, which are written as everywhere, and blank strings, which are shown quoted. */
function text(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' && TIME.test(value)) return utc(value);
  return typeof value === 'string' && value.trim() !== '' ? value : JSON.stringify(value);
}
