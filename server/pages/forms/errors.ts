/** Errors of a form whose change was refused. */
import { type ProblemCode, problems } from '../../model/errors.ts';
import type { Called } from '../call.ts';
import { plural } from '../show.ts';

/** Error messages by field, and the response status of the page. */
export interface FormFeedback {
  /** Key '' is the form as a whole, see partials/form-error. */
  errors: Record<string, string>;
  status: number;
  retryAfterSeconds?: number | undefined;
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
