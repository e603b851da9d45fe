/** /api/v1/alerts: conditions that need a person, now and before. */
import { z } from 'zod';
import { describeAlert } from '../../alerts/describe.ts';
import type { Database } from '../../db/pool.ts';
import { listAlerts } from '../../db/queries/alerts.ts';
import { alertSchema } from '../../resources/alerts.ts';
import type { Settings } from '../../settings/read.ts';
import { done, operation } from '../operation.ts';
import { flag, flagValue, pageOf, pageSchema, recordPageQuery } from '../paging.ts';

const listQuery = z.strictObject({
  ...recordPageQuery,
  active: flag.optional().describe('true: only active alerts; false: only ended alerts'),
});

interface AlertParts {
  settings: Pick<Settings, 'PUBLIC_URL'>;
  database: Database;
}

export function alertOperations({ settings, database }: AlertParts) {
  return {
    listAlerts: operation({
      query: listQuery,
      answers: { 200: pageSchema(alertSchema) },
      handle: async ({ query: { active, cursor, limit } }) => {
        const rows = await listAlerts(database, flagValue(active), cursor ?? null, limit + 1);
        return done(
          200,
          pageOf(rows, limit, (row) => ({ ...describeAlert(row, settings.PUBLIC_URL), requests: row.requests })),
        );
      },
    }),
  };
}
