/** Moves webhooks between cells, with audit entries. */
import { ProblemError, problem, type Result } from '../../../base/http/problem.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import type { Cells } from '../../../store/cells/cells.ts';
import { copyKeys, finishMoves } from '../../../store/cells/move.ts';
import type { Query } from '../../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../store/connect/unavailable.ts';
import { beginMove, readCellOf, undoMove } from '../../../store/queries/cells/webhook-moves.ts';
import { findWebhook, type WebhookRecord } from '../../../store/queries/webhooks/webhooks.ts';
import { asItIs, type ChangeParts } from '../change.ts';
import { webhookChanger } from '../webhooks/changer.ts';

interface MoveParts extends ChangeParts {
  cells: Cells;
}

/**
 * Resolves when new events go to the cell. One that goes there already is not changed, and one that is leaving the cell is put back.
 * A move that has begun when a database fails is finished by the primary.
 */
export async function moveWebhook(
  parts: MoveParts,
  actor: Actor,
  webhookId: string,
  number: number,
): Promise<Result<WebhookRecord>> {
  const { cells, database } = parts;
  await cells.changed();
  const to = cells.find(number);
  if (to === undefined) return problem('cell_unknown');
  const now = await readCellOf(database, webhookId);
  if (now === undefined) return problem('webhook_unknown');
  const change = (work: (query: Query) => Promise<boolean>) =>
    webhookChanger(parts, actor).change(webhookId, 'move', asItIs, async (query) => {
      if (!(await work(query))) throw new ProblemError(problem('webhook_moving'));
    });
  if (now.movingFrom === number) return change((query) => undoMove(query, webhookId, number));
  if (now.movingFrom !== null) return problem('webhook_moving');
  if (now.cell === number) return { kind: 'done', value: (await findWebhook(database.query, webhookId))! };
  if (!to.isFit) return problem('cell_unfit');
  const sinceMs = Date.now();
  await copyKeys(cells.numbered(now.cell), to, webhookId, null);
  const begun = await change(async (query) => (await beginMove(query, webhookId, number, sinceMs)) !== undefined);
  if (begun.kind === 'problem') return begun;
  try {
    await finishMoves(cells, webhookId);
  } catch (error) {
    if (error instanceof DatabaseUnavailable) return problem('webhook_moving');
    throw error;
  }
  return begun;
}
