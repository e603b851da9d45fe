/** /api/v1/conditions: what needs a person now. */
import { conditionReader } from '../../conditions/read.ts';
import { conditionSchema } from '../../resources/conditions.ts';
import { done, operation } from '../operation.ts';
import { listSchema } from '../paging.ts';

export function conditionOperations(parts: Parameters<typeof conditionReader>[0]) {
  const read = conditionReader(parts);
  const list = {
    answers: { 200: listSchema(conditionSchema) },
    handle: async () => done(200, { items: await read(Date.now()) }),
  };
  return {
    listConditions: operation(list),
    /** The name in earlier releases. */
    listProblems: operation({ ...list, isDeprecated: true }),
  };
}
