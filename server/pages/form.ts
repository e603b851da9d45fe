/** Converts form fields to API input. Values that cannot be parsed are passed unchanged, so that the schema rejects them. */

import type { Problem } from '../base/http/problem.ts';
import type { ProblemCode } from '../model/errors.ts';
import { type CallArguments, type Called, type Invalid, tagOf } from './call.ts';

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

/** The version that the form was rendered from, in its hidden field `tag`. */
export function basis(form: URLSearchParams): Pick<CallArguments, 'ifMatch'> {
  const tag = form.get('tag');
  return tag ? { ifMatch: tag } : {};
}

/** The tag for a refused form. After a conflict it is the current tag, so submitting again overwrites the other user's change. */
export async function nextTag(
  form: URLSearchParams,
  refused: Invalid | Problem,
  current: () => Promise<Called>,
): Promise<string | null> {
  if (refused.kind !== 'problem' || refused.code !== 'precondition_failed') return form.get('tag');
  const now = await current();
  return now.kind === 'done' ? tagOf(now) : null;
}
