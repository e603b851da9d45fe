/** A whole Weir whose SECRETS_KEY is replaced, which is killed while it sends an alert, or whose DATA_DIR is deleted. */

import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { listAlerts } from '../../../server/store/queries/alerts/alerts.ts';
import { agentsOf, request } from '../../helpers/agents.ts';
import { ALERT_SECRET, startAlertReceiver } from '../../helpers/alert-receiver.ts';
import type { Chain } from '../../helpers/chain.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';
import { kill, readiness, spawnWeir, type Weir } from '../../helpers/weir.ts';
import { expectNothingLost } from '../under-load.ts';

const [first, second] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];

/** The SECRETS_KEY with which Weir runs before these tests. */
export const firstKey = first;

const send = async ({ port }: Weir, { path, secret }: { path: string; secret: string }) => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, signedRequest({ secret }));
  const { code } = (await answer.json()) as { code?: string };
  return code ?? answer.status;
};
const me = async ({ port }: Weir, token: string) =>
  (await request(`http://127.0.0.1:${port}/api/v1/agent/me`, token)).status;

async function end(weir: Weir): Promise<void> {
  weir.signal('SIGTERM');
  expect(await weir.ended).toBe(0);
}

/** Weir is started twice, the second time with one process. */
export function keyTests(chain: Chain): void {
  test('a key is replaced under load, and the previous one is retired', async () => {
    const before = chain.weir;
    const webhooks = [await before.addWebhook(), await before.addWebhook()];
    const agent = made(await agentsOf(before).add({ name: 'a', webhook_ids: [] }));
    const signIn = async ({ port }: Weir) => {
      const url = `http://127.0.0.1:${port}/api/v1/agent/session`;
      return (await request(url, agent.credential, {})).body.access_token as string;
    };
    const session = await signIn(before);
    await end(before);

    await chain.startAgain({}, { SECRETS_KEY: second, SECRETS_KEY_PREVIOUS: first });
    const both = chain.weir;
    expect(both.events('secrets_key_replaced')).toHaveLength(1);
    expect(await me(both, session)).toBe(200);
    let running = true;
    const answers: unknown[] = [];
    const load = (async () => {
      while (running) answers.push(...(await Promise.all(webhooks.map((webhook) => send(both, webhook)))));
    })();
    const command = spawnWeir(
      {
        DATABASE_URL: chain.weir.conninfo,
        SECRETS_KEY: second,
        SECRETS_KEY_PREVIOUS: first,
        DATA_DIR: temporaryDirectory(),
      },
      { command: ['keys', 'rotate', '--json'] },
    );
    expect(await command.ended).toBe(0);
    const { counts } = JSON.parse(command.lines[0]!);
    const { stored } = counts.webhook_secrets;
    expect(stored).toBeGreaterThanOrEqual(webhooks.length);
    expect(counts.webhook_secrets).toEqual({ stored, reencrypted: stored, already_current: 0, unreadable: 0 });
    const answered = answers.length;
    await until(() => answers.length > answered + 20);
    running = false;
    await load;
    expect(new Set(answers)).toEqual(new Set([202]));
    // 15 minutes later, by the clock of the database.
    await chain.weir.sql(`update secrets_keys set replaced_at = replaced_at - interval '15 minutes'`);
    expect([await me(both, session), await me(both, await signIn(both))]).toEqual([401, 200]);
    await end(both);

    // One process: a gauge of the next test is summed.
    await chain.startAgain({ WORKERS: 1 }, { SECRETS_KEY: second });
    const after = chain.weir;
    expect(after.events('secrets_key_replaced')).toEqual([]);
    for (const webhook of webhooks) expect(await send(after, webhook)).toBe(202);
  });

  test('a secret that cannot be decrypted is reported everywhere', async () => {
    const { weir } = chain;
    const [lost, other] = [await weir.addWebhook(), await weir.addWebhook()];
    expect(await weir.metric('weir_webhooks_secret_unavailable')).toBe(0);
    const id = lost.path.slice('/in/'.length);
    await chain.weir.sql(
      `update webhook_secrets set sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1) where webhook_id = $1`,
      id,
    );
    await until(async () => (await weir.metric('weir_webhooks_secret_unavailable')) === 1);
    expect([await send(weir, lost), await send(weir, other)]).toEqual(['secret_unavailable', 202]);
    expect(await readiness(weir.port)).toMatchObject({ status: 200, checks: { secrets: 'degraded', database: 'ok' } });
    const given = { DATABASE_URL: chain.weir.conninfo, SECRETS_KEY: second, DATA_DIR: weir.dataDir };
    const doctor = spawnWeir(given, { command: ['doctor', '--json'] });
    await doctor.ended;
    const { checks } = JSON.parse(doctor.lines.join('')) as {
      checks: { name: string; state: string; finding: string }[];
    };
    expect(checks.find(({ name }) => name === 'stored_secrets')).toMatchObject({
      state: 'problem',
      finding: expect.stringContaining(id),
    });
  });
}

/** Weir is started again. */
export function alertTests(chain: Chain): void {
  test('kill -9 during a request: after the restart it is sent again with the same webhook-id, and the alert once', async () => {
    const receiver = await startAlertReceiver();
    receiver.status = null;
    const settings = { ALERT_URL: receiver.url, ALERT_SECRET, ALERT_PRIVATE_NETWORKS: 'allow' };
    await chain.configure(settings);
    const { weir: killed, webhook } = chain;
    const id = randomUUID();
    await chain.weir.sql(
      `
        with agent as (
          insert into agents (id, name, lookup_id, secret_hash) values ($1, 'billing', 'someLookupId', sha256('')) returning id
        ), subscription as (
          insert into subscriptions (webhook_id, agent_id) select $2, id from agent
        )
        insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
        values (gen_random_uuid(), $2, $1, gen_random_uuid(), now(), 0, now() - interval '1 hour')`,
      id,
      webhook.id,
    );
    await until(() => receiver.got.length > 0);
    kill(killed.pid, 'SIGKILL');
    await killed.ended;

    receiver.status = 200;
    await chain.startAgain(settings);
    await until(async () => {
      // Not waiting for the end of the claim of the killed one.
      await chain.weir.sql(`update alert_requests set next_attempt_at = now() where state = 'pending'`);
      const [alert] = await listAlerts(chain.weir.database, true, null, 1);
      return alert?.requests[0]?.state === 'sent';
    });
    expect(new Set(receiver.got.map((request) => request.id)).size).toBe(1);
    expect(new Set(receiver.got.map(({ body }) => body.subject.id))).toEqual(new Set([id]));
    expect(await listAlerts(chain.weir.database, null, null, 10)).toHaveLength(1);
  });
}

/** Weir has ended after this. */
export function dataDirTests(chain: Chain): void {
  test('DATA_DIR is deleted under load', async () => {
    const { weir } = chain;
    const sender = await chain.startLoad({ lanes: 8, first: 100 });
    await rm(weir.dataDir, { recursive: true });
    await sender.acceptMore(100);
    weir.signal('SIGHUP');
    await until(() => chain.events('restarted').length + chain.events('restart_failed').length > 0);
    expect(chain.events('restart_failed')).toEqual([]);
    await sender.acceptMore(100);
    await sender.stop();
    await expectNothingLost(chain, sender, { losses: 'of new connections' });
    weir.signal('SIGTERM');
    expect(await weir.ended).toBe(0);
  });
}
