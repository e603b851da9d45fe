/** /api/v1/conditions: what needs a person now. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import { conditionId, conditionSchema, snoozeSpan } from '../../../model/condition-list.ts';
import { conditionReader } from '../../conditions/read.ts';
import { snooze, withSnoozes } from '../../conditions/snooze.ts';
import { done, operation } from '../operation.ts';
import { listSchema } from '../paging.ts';

export function conditionOperations(parts: Parameters<typeof conditionReader>[0]) {
  const read = conditionReader(parts);
  const readAll = async (nowMs: number) => withSnoozes(parts.database, await read(nowMs), nowMs);
  const list = {
    answers: { 200: listSchema(conditionSchema) },
    handle: async () => done(200, { items: await readAll(Date.now()) }),
  };
  return {
    listConditions: operation(list),
    /** The name in earlier releases. */
    listProblems: operation({ ...list, isDeprecated: true }),

    snoozeCondition: operation({
      id: { schema: conditionId, problem: 'condition_unknown' },
      input: z.strictObject({ for: snoozeSpan }),
      answers: { 200: conditionSchema },
      handle: async ({ actor, id, input }) => {
        const nowMs = Date.now();
        const condition = (await readAll(nowMs)).find((one) => one.id === id);
        if (condition === undefined) return problem('condition_unknown');
        return done(200, await snooze(parts.database, actor, condition, input.for, nowMs));
      },
    }),
  };
}
