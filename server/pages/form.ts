/** Fields of forms as the API's operations want them; what cannot be read goes on as it is, for the schema to refuse. */
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

/** All values of the name: of checkboxes, or of a choice of several. */
export function list(form: URLSearchParams, name: string): string[] {
  return form.getAll(name).filter((value) => value !== '');
}

/** What the form was made from, by its hidden field `tag`. */
export function basis(form: URLSearchParams): Pick<CallArguments, 'ifMatch'> {
  const tag = form.get('tag');
  return tag ? { ifMatch: tag } : {};
}

/**
 * Sentences for a form that comes back, and the tag with which it can be sent again when somebody else made a change
 * meanwhile; null: the refusal is none that the form could show.
 */
export async function formErrors(
  refused: Exclude<Called, { kind: 'done' }>,
  current: () => Promise<Called>,
): Promise<{ errors: Record<string, string>; values: { tag?: string } } | null> {
  if (refused.kind === 'invalid') return { errors: refused.errors, values: {} };
  if (refused.code !== 'precondition_failed') return null;
  const now = await current();
  if (now.kind !== 'done') return null;
  return {
    errors: { '': 'somebody else changed it meanwhile. Save again to replace that.' },
    values: { tag: now.tag },
  };
}
