/** Maps the outcome of a change to a reply. */

import type { ProblemCode } from '../errors.ts';
import { jsonPointer } from '../http/issues.ts';
import type { Change } from './change.ts';
import { invalid, problem, type Reply } from './operation.ts';

/** @param unknown problem code when the resource does not exist or cannot be changed */
export function replyTo<T>(change: Change<T>, unknown: ProblemCode, answer: (value: T) => Reply): Reply {
  switch (change.kind) {
    case 'done':
      return answer(change.value);
    case 'unknown':
      return problem(unknown);
    case 'name_taken':
      return problem('name_taken');
    case 'stale':
      return problem('precondition_failed');
    case 'invalid':
      return invalid(jsonPointer(change.path), change.detail);
  }
}
