/** Options of commands that are derived from the table of a resource. */
import { expect, test } from 'vitest';
import { fieldOptions } from '../../../../server/cli/manage/resources/field-options.ts';
import { agentFields } from '../../../../server/model/agents.ts';
import type { Table } from '../../../../server/model/table.ts';
import { webhookFields } from '../../../../server/model/webhooks.ts';

test.each<[string, () => Table, string[]]>([
  // Functions: vitest reads every property of an argument, and zod has some that throw.
  // The commands place these options: they take names, or read standard input. Only weir apply gives ids.
  ['webhook', () => webhookFields, ['id', 'agent_ids', 'cell', 'secret', 'generate_secret']],
  // Only weir listen creates temporary agents; pause and resume are commands.
  ['agent', () => agentFields, ['id', 'paused', 'temporary', 'webhook_ids']],
])(
  'every member of a new %s has an option of weir %s add, except those that the command places',
  (_, table, others) => {
    const settable = Object.entries(table()).filter(([, { input }]) => input !== undefined);
    const without = settable.filter(([, { command }]) => command === undefined).map(([name]) => name);
    expect(without.sort()).toEqual(others.sort());
  },
);

test('an option of update says what unsets the member, and one of add its default', () => {
  const text = (change: 'add' | 'update', flag: string) =>
    fieldOptions(webhookFields, change).find(({ long }) => long === flag)!;
  expect(text('update', '--rate-limit').description).toMatch(/; none unsets it$/);
  expect(text('update', '--dedupe-header').description).toMatch(/; '' unsets it$/);
  expect(text('update', '--description').description).not.toContain('unsets');
  expect(text('add', '--scheme').description).toMatch(/; default: sha256$/);
  expect([text('add', '--name').mandatory, text('update', '--name').mandatory]).toEqual([true, false]);
});
