/** Thrown where a request has to be answered with a problem by whoever serves it, e.g. where nobody can say who asks. */
import type { ProblemCode } from '../errors.ts';

export class Refused extends Error {
  readonly code: ProblemCode;
  /** Null: repeating it does not help. */
  readonly retryAfterSeconds: number | null;

  constructor(
    code: ProblemCode,
    { cause, retryAfterSeconds = null }: { cause?: unknown; retryAfterSeconds?: number | null } = {},
  ) {
    super(code, { cause });
    this.code = code;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
