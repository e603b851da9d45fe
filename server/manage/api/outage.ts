/** The problem of a request that needs a database that cannot be used. */
import { type Problem, problemLater } from '../../base/http/problem.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';

/** Names the cell. Null: the error is another one. */
export function outageProblem(error: unknown): Problem | null {
  if (!(error instanceof DatabaseUnavailable)) return null;
  const refused = problemLater('database_unavailable', 1);
  if (error.cell === undefined) return refused;
  const { number, name } = error.cell;
  return {
    ...refused,
    detail: `Cell ${number} (${name}) cannot be reached or accepts no writes, and this needs it; repeat the request.`,
  };
}
