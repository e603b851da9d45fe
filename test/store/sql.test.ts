import { expect, test } from 'vitest';
import { z } from 'zod';
import { isoText, selectList } from '../../server/store/sql.ts';

test('a select list has the members of the schema, times as ISO text, and the given expressions', () => {
  const schema = z.object({
    id: z.guid(),
    created_at: z.iso.datetime().describe('when'),
    ended_at: z.iso.datetime().nullable().describe('when'),
    disabled: z.boolean(),
  });
  expect(selectList(schema, 't', { disabled: 't.disabled_at is not null' })).toBe(
    `t.id, ${isoText('t.created_at')} as created_at, ${isoText('t.ended_at')} as ended_at, t.disabled_at is not null as disabled`,
  );
});
