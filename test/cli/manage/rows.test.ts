/** Rows whose operations the test plays. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { CommandError } from '../../../server/base/command/io.ts';
import type { Call } from '../../../server/cli/manage/call.ts';
import { rows as cellRows } from '../../../server/cli/manage/resources/cell.ts';
import { actionRows } from '../../../server/cli/manage/resources/delivery-act.ts';
import type { Given } from '../../../server/cli/manage/row.ts';

test('what was done before a failure can be undone', async () => {
  const [stderr, answers] = [new PassThrough(), ['one', 'two']];
  const call = (async () => {
    const action_id = answers.shift();
    if (action_id === undefined) throw new CommandError('no answer');
    return { dismissed: 2, action_id, more: true, finished_before: '2030-01-01T00:00:00.000Z' };
  }) as unknown as Call;
  const given = { id: '', options: { allAgents: true }, io: { stderr } } as unknown as Given<object>;
  const dismiss = actionRows.find(({ name }) => name === 'dismiss')!;
  await expect(dismiss.run(call, given)).rejects.toThrow('no answer');
  expect(String(stderr.read())).toBe('Undo: weir delivery undo one\nUndo: weir delivery undo two\n');
});

test.each([
  [['home'], 'cell-1'],
  [['home', 'cell-1'], 'cell-2'],
  [['home', 'cell-2'], 'cell-1'],
  [['home', 'east', 'cell-2', 'cell-1'], 'cell-3'],
])('a cell beside %j gets a name that no cell has', async (names, name) => {
  const items = names.map((name) => ({ name }));
  const call = (async (operation: string, given: object) => (operation === 'listCells' ? { items } : given)) as Call;
  const add = cellRows.find((row) => row.name === 'add')!;
  const given = { options: { citus: true }, io: {} } as unknown as Given<object>;
  expect(await add.run(call, given)).toMatchObject({ input: { name, citus: true } });
});
