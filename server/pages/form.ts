/** Fields of forms as the API's operations want them; what cannot be read goes on as it is, for the schema to refuse. */
import type { ProblemCode } from '../errors.ts';
import type { CallArguments, Called } from './page.ts';

export function field(form: URLSearchParams, name: string): string {
  // Browsers send line ends of text areas as CR LF.
  return (form.get(name) ?? '').replaceAll('\r\n', '\n');
}

/** Null when it was left empty. */
export function optional(form: URLSearchParams, name: string): string | null {
  const value = field(form, name).trim();
  return value === '' ? null : value;
}

/** Null when it was left empty; text that is no number stays text. */
export function number(form: URLSearchParams, name: string): number | string | null {
  const value = optional(form, name);
  return value !== null && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
}

/** What partials/confirm-identity sends: the password again; nothing when it was left empty. */
export function confirmation(form: URLSearchParams): { current_password?: string } {
  const password = form.get('current_password');
  return password ? { current_password: password } : {};
}

/** Where a refused confirmation stands. @param key of the form, where a page has several. */
export function confirmationError(key?: string): Partial<Record<ProblemCode, string>> {
  const field = key === undefined ? 'current_password' : `current_password-${key}`;
  return { reauthentication_required: field, sign_in_limited: field };
}

/** All values of the name: of checkboxes, or of a choice of several. */
export function list(form: URLSearchParams, name: string): string[] {
  return form.getAll(name).filter((value) => value !== '');
}

/** What the form was made from, by its hidden field `tag`. */
export function basis(form: URLSearchParams): Pick<CallArguments, 'ifMatch'> {
  const tag = form.get('tag');
  return tag ? { ifMatch: tag } : {};
}

/** The tag with which a refused form comes back: when somebody else made a change meanwhile, to send it again replaces that. */
export async function nextTag(
  form: URLSearchParams,
  refused: Called,
  current: () => Promise<Called>,
): Promise<string | null> {
  if (refused.kind !== 'problem' || refused.code !== 'precondition_failed') return form.get('tag');
  const now = await current();
  return now.kind === 'done' ? now.tag : null;
}
