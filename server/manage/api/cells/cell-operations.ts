/** /api/v1/cells, and moves of webhooks between cells. */
import { z } from 'zod';
import { invalid, ProblemError, problem, type Result } from '../../../base/http/problem.ts';
import type { Settings } from '../../../base/settings/read.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import { type CellView, cellInput, cellSchema } from '../../../model/cells.ts';
import { recordId } from '../../../model/fields.ts';
import { confirmationInput } from '../../../model/users.ts';
import { webhookSchema } from '../../../model/webhooks.ts';
import type { Actor } from '../../../store/audit/record.ts';
import type { Cell } from '../../../store/cells/cell.ts';
import { copyKeys, finishMoves } from '../../../store/cells/move.ts';
import { describeConninfo } from '../../../store/connect/conninfo.ts';
import type { Query } from '../../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../store/connect/unavailable.ts';
import { readCellFigures, readCellUse, readReplicationLag } from '../../../store/queries/cells/cells.ts';
import { beginMove, readCellOf, readWebhooksIn, undoMove } from '../../../store/queries/cells/webhook-moves.ts';
import { findWebhook, type WebhookRecord } from '../../../store/queries/webhooks/webhooks.ts';
import type { Person } from '../../auth/person.ts';
import { explainCommitFailure } from '../../conditions/commit-failure.ts';
import { asItIs } from '../change.ts';
import { done, operation, replyTo } from '../operation.ts';
import { listSchema } from '../paging.ts';
import { chooseCell, webhookChanger } from '../webhooks/webhook-changes.ts';
import { describeWebhook } from '../webhooks/webhook-operations.ts';
import { type CellParts, CellService } from './cell-changes.ts';

const id = { schema: z.string().regex(/^\d{1,4}$/), problem: 'cell_unknown' } as const;

/** Webhooks moved in one call of a drain. */
const DRAINED_MAX = 100;

const drainedSchema = z.object({
  cell: cellSchema.describe('the cell, which gets no new webhook'),
  moved: z.int().describe('webhooks that were moved by this call'),
  more: z.boolean().describe('true: call again, webhooks are left'),
});

/** @param settings RETENTION_DAYS decides when a drained cell is empty */
export function cellOperations(
  parts: CellParts,
  settings: Pick<Settings, 'RETENTION_DAYS' | 'FRONTEND_PUBLIC_API_URL'>,
) {
  const { cells } = parts;
  const moveParts = { ...parts, retentionDays: settings.RETENTION_DAYS };
  const describe = describeWebhook(settings.FRONTEND_PUBLIC_API_URL);
  const by = (who: Person, actor: Actor) => new CellService(parts, actor, who.via.kind === 'local');
  const views = async (): Promise<CellView[]> => {
    await cells.load();
    const home = cells.numbered(0).database;
    const use = await readCellUse(home);
    return Promise.all(cells.listed().map((cell) => viewOf(cell, use, settings.RETENTION_DAYS)));
  };
  const answer = async <S extends number>(status: S, result: Result<number>) => {
    if (result.kind === 'problem') return result;
    const view = (await views()).find(({ number }) => number === result.value);
    return view === undefined ? problem('cell_unknown') : done(status, view);
  };

  return {
    listCells: operation({
      answers: { 200: listSchema(cellSchema) },
      handle: async () => done(200, { items: await views() }),
    }),

    addCell: operation({
      stepUp: true,
      input: cellInput.create,
      answers: { 201: cellSchema },
      problems: ['cell_name_taken'],
      handle: async ({ who, actor, input: { name, database, citus } }) =>
        (database === undefined) === (citus === undefined)
          ? invalid('/database', 'Give either database or citus.')
          : answer(201, await by(who, actor).add(name, database ?? null)),
    }),

    updateCell: operation({
      stepUp: true,
      id,
      input: cellInput.update,
      answers: { 200: cellSchema },
      problems: ['cell_name_taken'],
      handle: async ({ who, actor, id, input: { current_password: _, ...given } }) =>
        answer(200, await by(who, actor).update(Number(id), given)),
    }),

    /** Moves some of the webhooks of the cell; the last call leaves none. */
    drainCell: operation({
      id,
      answers: { 200: drainedSchema },
      problems: ['cell_unready', 'cell_unfit', 'webhook_moving'],
      handle: async ({ who, actor, id }) => {
        const number = Number(id);
        const drained = await by(who, actor).drain(number);
        if (drained.kind === 'problem') return drained;
        const home = cells.numbered(0).database;
        const webhooks = await readWebhooksIn(home, number, DRAINED_MAX + 1);
        for (const webhookId of webhooks.slice(0, DRAINED_MAX)) {
          const moved = await moveWebhook(moveParts, actor, webhookId, await chooseCell(cells));
          if (moved.kind === 'problem') return moved;
        }
        const cell = (await views()).find((each) => each.number === number)!;
        return done(200, { cell, moved: Math.min(webhooks.length, DRAINED_MAX), more: webhooks.length > DRAINED_MAX });
      },
    }),

    removeCell: operation({
      stepUp: true,
      id,
      input: confirmationInput,
      answers: { 204: null },
      problems: ['cell_in_use'],
      handle: async ({ who, actor, id }) => replyTo(await by(who, actor).remove(Number(id)), () => done(204)),
    }),

    /** New events go to the other cell; older ones stay until retention. Resolves when its deduplication keys are there. */
    moveWebhook: operation({
      id: { schema: recordId, problem: 'webhook_unknown' },
      input: cellInput.move,
      answers: { 200: webhookSchema },
      problems: ['cell_unknown', 'cell_unfit', 'webhook_moving'],
      handle: async ({ actor, id, input }) =>
        replyTo(await moveWebhook(moveParts, actor, id, input.cell), (webhook) => done(200, describe(webhook))),
    }),
  };
}

async function viewOf(
  cell: Cell,
  { webhooks, waiting }: Awaited<ReturnType<typeof readCellUse>>,
  retentionDays: number,
): Promise<CellView> {
  const { number, name, address, conninfo, state, database } = cell;
  const figures = await Promise.all([readCellFigures(database), readReplicationLag(database)]).catch(() => null);
  const [size, lag] = figures ?? [null, null];
  return {
    number,
    name,
    kind: address.kind,
    address: describeConninfo(conninfo),
    state,
    away: cell.failure === null ? cell.away : explainCommitFailure(cell.failure).finding,
    webhooks: webhooks.get(number) ?? 0,
    waiting: waiting.get(number) ?? 0,
    events: size?.events ?? null,
    bytes: size?.bytes ?? null,
    oldest_at: size?.oldestAt ?? null,
    replication_lag_bytes: lag,
    empty_at: state === 'draining' && size !== null ? emptyAt(size.newestAt, retentionDays) : null,
    created_at: number === 0 ? null : new Date(cell.sinceMs).toISOString(),
  };
}

/** When retention has dropped the last day of a drained cell. A day is dropped as a whole, once its last event is too old. */
function emptyAt(newestAt: string | null, retentionDays: number): string | null {
  if (newestAt === null) return null;
  const dayEndMs = (Math.floor(Date.parse(newestAt) / DAY_MS) + 1) * DAY_MS;
  return new Date(dayEndMs + retentionDays * DAY_MS).toISOString();
}

/**
 * Moves a webhook to a cell. Resolves once new events go there. A webhook that is in the cell is unchanged; one that is moving away from it is
 * moved back. If a database fails after the move has begun, the primary finishes the move.
 */
async function moveWebhook(
  parts: Omit<CellParts, 'key'> & { retentionDays: number },
  actor: Actor,
  webhookId: string,
  number: number,
): Promise<Result<WebhookRecord>> {
  const { cells, database, retentionDays } = parts;
  await cells.load();
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
    await finishMoves(cells, retentionDays, webhookId);
  } catch (error) {
    if (error instanceof DatabaseUnavailable) return problem('webhook_moving');
    throw error;
  }
  return begun;
}
