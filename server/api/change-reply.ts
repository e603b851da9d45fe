/** Maps the outcome of a change to a reply. */

import type { ProblemCode } from '../errors.ts';
import { jsonPointer } from '../http/issues.ts';
import { invalid, type Problem, problem } from '../http/problem.ts';
import type { Change } from './change.ts';

/** @param unknown problem code when the resource does not exist or cannot be changed */
export function replyTo<T, R>(change: Change<T>, unknown: ProblemCode, answer: (value: T) => R): R | Problem {
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
