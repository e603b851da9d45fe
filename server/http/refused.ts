/** Error that the server answers with a problem document, e.g. when the caller's identity cannot be determined. */
import type { ProblemCode } from '../errors.ts';

export class Refused extends Error {
  readonly code: ProblemCode;
  /** Value of Retry-After; null if a retry does not help. */
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
