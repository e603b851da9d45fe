/** Alerts of a whole Weir: killed while it sends one, it sends the same one again. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { listAlerts } from '../../../server/store/queries/alerts/alerts.ts';
import { ALERT_SECRET, startAlertReceiver } from '../../helpers/alert-receiver.ts';
import type { Chain } from '../../helpers/chain.ts';
import { until } from '../../helpers/wait.ts';
import { kill } from '../../helpers/weir.ts';

/** Weir is started again. */
export function alertTests(chain: Chain): void {
  test('kill -9 during a request: after the restart it is sent again with the same webhook-id, and the alert once', async () => {
    const receiver = await startAlertReceiver();
    receiver.status = null;
    const settings = { ALERT_URL: receiver.url, ALERT_SECRET, ALERT_PRIVATE_NETWORKS: 'allow' };
    await chain.configure(settings);
    const { weir: killed, webhook } = chain;
    const id = randomUUID();
    await chain.weir.database.query({
      text: `
        with agent as (
          insert into agents (id, name, lookup_id, secret_hash) values ($1, 'billing', 'someLookupId', sha256('')) returning id
        ), subscription as (
          insert into subscriptions (webhook_id, agent_id) select $2, id from agent
        )
        insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
        values (gen_random_uuid(), $2, $1, gen_random_uuid(), now(), 0, now() - interval '1 hour')`,
      values: [id, webhook.id],
    });
    await until(() => receiver.got.length > 0);
    kill(killed.pid, 'SIGKILL');
    await killed.ended;

    receiver.status = 200;
    await chain.startAgain(settings);
    await until(async () => {
      // Not waiting for the end of the claim of the killed one.
      await chain.weir.database.query({
        text: `update alert_requests set next_attempt_at = now() where state = 'pending'`,
      });
      const [alert] = await listAlerts(chain.weir.database, true, null, 1);
      return alert?.requests[0]?.state === 'sent';
    });
    expect(new Set(receiver.got.map((request) => request.id)).size).toBe(1);
    expect(new Set(receiver.got.map(({ body }) => body.subject.id))).toEqual(new Set([id]));
    expect(await listAlerts(chain.weir.database, null, null, 10)).toHaveLength(1);
  });
}
