/** /api/v1/alerts: conditions that need a person, now and before. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import type { Settings } from '../../../base/settings/read.ts';
import { alertSchema, alertTestSchema } from '../../../model/alerts.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { listAlerts } from '../../../store/queries/alerts/alerts.ts';
import { describeAlert } from '../../conditions/describe.ts';
import { postAlert } from '../../conditions/post.ts';
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
      /** Sends a test alert to ALERT_URL, once, and records who sent it. */
      handle: async ({ actor }) => {
        const { ALERT_URL, PUBLIC_URL } = settings;
        if (ALERT_URL === undefined) return problem('alert_url_unset');
        const id = randomUUID();
        const nowMs = Date.now();
        const url = `${PUBLIC_URL}/status#alerts`;
        const text = `This is a test alert of Weir. ${url}`;
        const body = JSON.stringify({ type: 'alert.test', timestamp: new Date(nowMs).toISOString(), text, url });
        const posted = await postAlert({ ...settings, ALERT_URL }, { id, body }, nowMs);
        const { status, durationMs } = posted;
        const sent = posted.kind === 'sent';
        // The host alone: the path of ALERT_URL may be a secret.
        const target = { kind: 'alert', id: null, name: new URL(ALERT_URL).host };
        await database.transaction((query) =>
          record(query, actor, { action: 'alert.test', target, after: { sent, status } }),
        );
        const [error, fix] = posted.kind === 'sent' ? [null, null] : [posted.error, posted.fix];
        return done(200, { id, sent, status, duration_ms: durationMs, error, fix });
      },
    }),
  };
}
