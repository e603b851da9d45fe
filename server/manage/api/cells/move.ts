/** Moves webhooks between cells, with audit entries, and chooses the cell of a new one. */
import { ProblemError, problem, type Result } from '../../../base/http/problem.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import type { Cells } from '../../../store/cells/cells.ts';
import { copyKeys, finishMoves } from '../../../store/cells/move.ts';
import { readDatabaseBytes } from '../../../store/queries/server-state.ts';
import { beginMove, readCellOf } from '../../../store/queries/webhook-moves.ts';
import { findWebhook, lockWebhook, type WebhookRecord } from '../../../store/queries/webhooks.ts';
import { asItIs, type ChangeParts, Changer } from '../change.ts';

interface MoveParts extends ChangeParts {
  cells: Cells;
}

/** Resolves when new events go to the cell. One that goes there already is not changed. */
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
  if (to.state !== 'active' || to.away !== null) return problem('cell_unfit');
  const now = await readCellOf(database, webhookId);
  if (now === undefined) return problem('webhook_unknown');
  if (now.moving) return problem('webhook_moving');
  if (now.cell === number) return { kind: 'done', value: (await findWebhook(database.query, webhookId))! };
  const sinceMs = Date.now();
  await copyKeys(cells.numbered(now.cell), to, webhookId, null);
  const changer = new Changer<WebhookRecord>(parts, actor, {
    name: 'webhook',
    unknown: 'webhook_unknown',
    lock: lockWebhook,
    find: findWebhook,
  });
  const begun = await changer.change(webhookId, 'move', asItIs, async (query) => {
    if ((await beginMove(query, webhookId, number, sinceMs)) === undefined)
      throw new ProblemError(problem('webhook_moving'));
  });
  if (begun.kind === 'problem') return begun;
  await finishMoves(cells);
  return begun;
}

/** The active cell that has the fewest bytes; home counts as one. Without other cells: home. */
export async function placeForEvents(cells: Cells): Promise<number> {
  if (!cells.known) await cells.load();
  const fit = cells.all().filter(({ state, away }) => state === 'active' && away === null);
  if (fit.length <= 1) return fit[0]?.number ?? 0;
  const sized = await Promise.all(
    fit.map(async ({ number, database }) => ({
      number,
      bytes: await readDatabaseBytes(database).catch(() => Number.POSITIVE_INFINITY),
    })),
  );
  return sized.reduce((one, other) => (other.bytes < one.bytes ? other : one)).number;
}
