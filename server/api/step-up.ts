/** Step-up (auth/step-up.ts) for operations: its problems, and the reply when it is refused. */

import { type Confirmation, REAUTHENTICATION_SECONDS } from '../auth/step-up.ts';
import type { ProblemCode } from '../errors.ts';
import { type Problem, problem, problemLater } from '../http/problem.ts';

/** Problems of an operation with `stepUp`. */
export const stepUpProblems = [
  'reauthentication_required',
  'sign_in_limited',
  'sign_in_busy',
] as const satisfies readonly ProblemCode[];

const SIGN_IN_AGAIN = `Sign in at the identity provider again: open /oidc/start?fresh=true in the browser, then repeat the change within ${REAUTHENTICATION_SECONDS / 60} minutes.`;

/** Maps a confirmation to a problem. Null: confirmed. */
export function refusalOf(confirmation: Confirmation): Problem | null {
  switch (confirmation.kind) {
    case 'confirmed':
      return null;
    case 'missing':
      return problem('reauthentication_required', 'Give your password again, as current_password.');
    case 'failed':
      return problem('reauthentication_required', 'This is not your password.');
    case 'stale':
      return problem('reauthentication_required', SIGN_IN_AGAIN);
    case 'wait':
      return problemLater('sign_in_limited', confirmation.seconds);
    case 'busy':
      return problemLater('sign_in_busy', 1);
  }
}
