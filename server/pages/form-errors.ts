/** What a form says when the change that it asked for was refused. */
import type { ProblemCode } from '../errors.ts';
import type { Called } from './page.ts';

/** Sentences by the field that they stand beside; '' is the form as a whole, see partials/form-error. */
export type Errors = Record<string, string>;

/**
 * The sentences, and the status of the page that shows them.
 * @param fieldOf the field that a problem is about, by its code; any other is about the form as a whole.
 */
export function formErrors(
  refused: Exclude<Called, { kind: 'done' }>,
  fieldOf: Partial<Record<ProblemCode, string>> = {},
): { errors: Errors; status: number } {
  if (refused.kind === 'invalid') return { errors: refused.errors, status: 422 };
  const field = fieldOf[refused.code as ProblemCode] ?? '';
  return { errors: { [field]: refused.detail }, status: refused.status };
}
