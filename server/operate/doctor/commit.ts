/** Checks that an event could be stored now, by the trial commit of readyz. */
import { explainCommitFailure } from '../../manage/conditions/commit-failure.ts';
import { type Check, ok, problem } from '../../model/check.ts';
import { probeCommit } from '../../store/commit-probe.ts';
import type { Database } from '../../store/connect/pool.ts';
import { sqlStateKind } from '../../store/connect/sql-states.ts';

/** Stores nothing. A missing partition is not reported here: checkPartitions names it. */
export async function checkCommit(database: Database, nowMs: number): Promise<Check[]> {
  const name = 'commit';
  try {
    await probeCommit(database, nowMs);
    return [ok(name, 'a trial commit of an event succeeds')];
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (sqlStateKind(code ?? '') === 'partition_missing') return [];
    const { finding, fix, said } = explainCommitFailure({ sqlState: code ?? null, reason: message });
    return [problem(name, `Postgres does not commit events: ${finding} (${said})`, fix)];
  }
}
