/** Converts form fields to API input. Values that cannot be parsed are passed unchanged, so that the schema rejects them. */

import type { Problem } from '../../base/http/problem.ts';
import { etagOf } from '../../manage/api/precondition.ts';
import type { ProblemCode } from '../../model/errors.ts';
import type { CallArguments, Called, Invalid } from '../call.ts';
import { differences } from './differences.ts';

export function field(form: URLSearchParams, name: string): string {
  // Browsers send line ends of text areas as CR LF.
  return (form.get(name) ?? '').replaceAll('\r\n', '\n');
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
  const [before, after] = [membersOf(was), membersOf(now)];
  const changed = differences(before, after).filter(({ name, changed }) => changed && name !== 'updated_at');
  const shown = (value: string | null) =>
    value === null
      ? 'none'
      : `“${value.length > VALUE_CHARACTERS_MAX ? `${value.slice(0, VALUE_CHARACTERS_MAX)}…` : value}”`;
  return changed
    .map(({ name, before, after }) => `${name.replaceAll('_', ' ')} from ${shown(before)} to ${shown(after)}`)
    .join('; ');
}

/** Null: the text is not a version, because an older release rendered the form. */
function membersOf(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}
