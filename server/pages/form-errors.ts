/** What a form says when the change that it asked for was refused. */
import type { ProblemCode } from '../errors.ts';
import type { Called } from './page.ts';
import { plural } from './show.ts';

/** Sentences by the field that they stand beside, and how the page that shows them is answered. */
export interface Told {
  /** '' is the form as a whole, see partials/form-error. */
  errors: Record<string, string>;
  status: number;
  retryAfterSeconds: number | null;
}

/** Of a form that is shown for the first time. */
export const noErrors: Told = { errors: {}, status: 200, retryAfterSeconds: null };

/** Of a form whose field the page judges itself. */
export function fieldError(field: string, sentence: string): Told {
  return { errors: { [field]: sentence }, status: 422, retryAfterSeconds: null };
}

/** @param fieldOf the field that a problem is about, by its code; any other is about the form as a whole. */
export function formErrors(
  refused: Exclude<Called, { kind: 'done' }>,
  fieldOf: Partial<Record<ProblemCode, string>> = {},
): Told {
  if (refused.kind === 'invalid') return { ...noErrors, errors: refused.errors, status: 422 };
  const { code, status, retryAfterSeconds } = refused;
  // People have no ETag; the form has, see nextTag.
  const detail =
    code === 'precondition_failed' ? 'Somebody else changed it meanwhile: save again to replace that.' : refused.detail;
  const wait = retryAfterSeconds === null ? '' : ` Try again in ${plural(retryAfterSeconds, 'second')}.`;
  return { errors: { [fieldOf[code as ProblemCode] ?? '']: detail + wait }, status, retryAfterSeconds };
}
