/** A test alert, which a person sends: to ALERT_URL, once, with its result. */
import { randomUUID } from 'node:crypto';
import type { Settings } from '../../base/settings/read.ts';
import type { AlertTest } from '../../model/alerts.ts';
import type { Actor } from '../../store/audit/actor.ts';
import { record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { testBody } from './message.ts';
import { type PostSettings, postAlert } from './post.ts';

/** Sends a test alert and records who sent it. Null: ALERT_URL is unset. */
export async function testAlert(
  database: Pick<Database, 'transaction'>,
  settings: PostSettings & Pick<Settings, 'PUBLIC_URL'>,
  actor: Actor,
): Promise<AlertTest | null> {
  const { ALERT_URL } = settings;
  if (ALERT_URL === undefined) return null;
  const id = randomUUID();
  const nowMs = Date.now();
  const posted = await postAlert({ ...settings, ALERT_URL }, { id, body: testBody(settings.PUBLIC_URL, nowMs) }, nowMs);
  const { status, durationMs } = posted;
  const sent = posted.kind === 'sent';
  // The host alone: the path of ALERT_URL may be a secret.
  const target = { kind: 'alert', id: null, name: new URL(ALERT_URL).host };
  await database.transaction((query) =>
    record(query, actor, { action: 'alert.test', target, after: { sent, status } }),
  );
  const [error, fix] = posted.kind === 'sent' ? [null, null] : [posted.error, posted.fix];
  return { id, sent, status, duration_ms: durationMs, error, fix };
}
