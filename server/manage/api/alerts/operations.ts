/** /api/v1/alerts: conditions that need a person, now and before. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import type { Settings } from '../../../base/settings/read.ts';
import { alertSchema, alertTestSchema } from '../../../model/alerts.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { listAlerts } from '../../../store/queries/alerts/alerts.ts';
import { describeAlert } from '../../conditions/describe.ts';
import { testAlert } from '../../conditions/test-alert.ts';
import { done, operation } from '../operation.ts';
import { flag, flagValue, pageOf, pageSchema, recordPageQuery } from '../paging.ts';

const listQuery = z.strictObject({
  ...recordPageQuery,
  active: flag.optional().describe('true: only active alerts; false: only ended alerts'),
});

interface AlertParts {
  settings: Pick<Settings, 'PUBLIC_URL' | 'ALERT_URL' | 'ALERT_SECRET' | 'ALERT_PRIVATE_NETWORKS'>;
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

    testAlert: operation({
      answers: { 200: alertTestSchema },
      problems: ['alert_url_unset'],
      handle: async ({ actor }) => {
        const tested = await testAlert(database, settings, actor);
        return tested === null ? problem('alert_url_unset') : done(200, tested);
      },
    }),
  };
}
