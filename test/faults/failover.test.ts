/** The leader of a Postgres managed by Patroni is lost: nothing answered 202 is lost, and Weir writes to the next leader without a restart. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addAgent, type TestAgent } from '../helpers/agents.ts';
import { rowsOf } from '../helpers/hold.ts';
import { lackingForPatroni, type Node, type Patroni, startPatroni } from '../helpers/patroni.ts';
import { signedRequest } from '../helpers/requests.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';
import { asApp, spawnWeir, startWeir, type Weir } from '../helpers/weir.ts';

const FAILOVER_MS = 240_000;
/** More by hand: WEIR_TEST_FAILOVERS=10. Each takes about 35 s, because Patroni's lease of a dead leader has to expire. */
const FAILOVERS = Number(process.env.WEIR_TEST_FAILOVERS ?? 1);

const KEY_HEADER = 'x-delivery';
/** Pause of an agent after a claim that failed. */
const PAUSE_MS = 100;

const lacking = lackingForPatroni();
if (lacking !== '') console.warn(`The test of failovers is skipped: this machine lacks ${lacking}.`);

/** Rows of a query on this node alone. */
const askNode = ({ port }: Node, text: string) => rowsOf(`host=127.0.0.1 port=${port} user=weir dbname=weir`, text);

describe.skipIf(lacking !== '')('a failover', () => {
  const secret = 'a secret between friends';
  let patroni: Patroni;
  let weir: Weir;
  let settings: Record<string, string>;
  /** Without and with deduplication: stored by COPY and by a statement. */
  let webhooks: { id: string; path: string; secret: string }[];
  let agent: TestAgent;

  beforeAll(async () => {
    patroni = await startPatroni();
    // The default: a frozen leader answers nothing.
    settings = { DATABASE_URL: patroni.conninfo, SECRETS_KEY: someKey, COMMIT_TIMEOUT_MS: '10000' };
    weir = await startWeir(settings);
    const app = asApp(weir);
    webhooks = [await weir.addWebhook(), await weir.addWebhook(undefined, { dedupe_header: KEY_HEADER })];
    agent = await addAgent(
      app,
      webhooks.map((webhook) => ({ ...webhook, url: app.url + webhook.path, secret })),
    );
  });
  afterAll(async () => {
    await weir?.stop();
    await patroni?.stop();
  });

  test('cannot be caused without the password of Patroni, or of etcd', async () => {
    const { leader, standby } = await patroni.settled();
    const answers = await Promise.all([
      ...(['failover', 'switchover', 'restart', 'reinitialize'] as const).map((path) =>
        fetch(`http://127.0.0.1:${leader.restPort}/${path}`, {
          method: 'POST',
          body: JSON.stringify({ leader: leader.name, candidate: standby.name }),
        }),
      ),
      fetch(`http://127.0.0.1:${leader.restPort}/config`, { method: 'PATCH', body: '{"pause":true}' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401]);
    const etcd = (path: string, body: object) =>
      fetch(`http://127.0.0.1:${patroni.etcdPort}/v3/${path}`, { method: 'POST', body: JSON.stringify(body) });
    const key = Buffer.from('/service/weir/leader').toString('base64');
    for (const answer of [
      await etcd('kv/range', { key }),
      await etcd('kv/put', { key, value: key }),
      await etcd('auth/disable', {}),
      await etcd('auth/authenticate', { name: 'root', password: 'x' }),
    ])
      expect(answer.status).toBeGreaterThanOrEqual(400);
    expect((await patroni.settled()).leader).toBe(leader);
  });

  test('by kill -9 of the leader under load', { timeout: FAILOVER_MS * FAILOVERS }, async () => {
    for (let round = 0; round < FAILOVERS; round++) await failOver();
  });

  test.runIf(FAILOVERS > 1)('by freezing it: a leader that returns is not written to', async () => {
    const { leader, standby } = await patroni.settled();
    const sender = startSender({ port: weir.port, ...webhooks[0]!, lanes: 16 });
    await sender.acceptMore(300);
    const thaw = await leader.freeze();
    const frozenMs = performance.now();
    await until(() => leads(standby));
    const promotedMs = performance.now();
    await sender.acceptMore(1);
    const resumedMs = performance.now();
    await sender.acceptMore(300);
    thaw();
    expect(await patroni.settled()).toMatchObject({ leader: { name: standby.name } });
    await sender.acceptMore(300);
    await sender.stop();
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
    expect(sender.losses).toEqual([]);
    expect(await askNode(leader, sessions)).toEqual([{ standby: true, weir: 0 }]);
    console.log(
      `frozen: promoted after ${seconds(promotedMs - frozenMs)} s, resumed ${seconds(resumedMs - promotedMs)} s later`,
    );
  });

  const leads = async (node: Node) => (await askNode(node, 'select where not pg_is_in_recovery()')).length > 0;
  const sessions = `select pg_is_in_recovery() as standby, count(*) filter (where application_name like 'weir%')::int as weir
    from pg_stat_activity`;

  async function failOver(): Promise<void> {
    const { leader, standby } = await patroni.settled();
    const senders = webhooks.map((webhook) =>
      startSender({ port: weir.port, ...webhook, lanes: 16, keyHeader: KEY_HEADER }),
    );
    const claimer = startClaimer(agent);
    const acceptMore = () => Promise.all(senders.map((sender) => sender.acceptMore(300)));
    await acceptMore();
    const listening = weir.events('listener_up').length;
    const processes = await weir.servingPids();

    await leader.kill();
    const killedMs = performance.now();
    await Promise.all(senders.map(({ refusals }) => until(() => refusals.length > 0)));
    // Reported by hand only: each look starts a session.
    const look = async () => FAILOVERS === 1 || (await leads(standby));
    const promoted = until(look).then(() => performance.now());
    promoted.catch(() => {});
    const accepted = senders.reduce((sum, sender) => sum + sender.accepted.size, 0);
    await Promise.all(senders.map((sender) => sender.acceptMore(1)));
    const resumedMs = performance.now();
    await acceptMore();
    expect(await weir.servingPids()).toEqual(processes);

    // The listener: a command waits until every process knows the new webhook.
    await until(() => weir.events('listener_up').length > listening);
    const added = await weir.addWebhook();
    const post = async () =>
      (await fetch(`http://127.0.0.1:${weir.port}${added.path}`, signedRequest({ secret }))).status;
    // One of the processes may still be without a connection; none may answer 404.
    expect(await until(async () => [await post()].find((status) => status !== 503))).toBe(202);
    // Commands find the leader while the other host is down.
    const command = spawnWeir({ ...settings, DATA_DIR: weir.dataDir }, { command: ['webhook', 'list', '--json'] });
    expect(await command.ended).toBe(0);
    expect(JSON.parse(command.lines.join('\n'))).toEqual(expect.anything());

    // The old leader returns as a standby, and no session of Weir is there.
    leader.start();
    const now = await patroni.settled();
    expect([now.leader.name, now.standby.name]).toEqual([standby.name, leader.name]);
    await acceptMore();
    expect(await askNode(leader, sessions)).toEqual([{ standby: true, weir: 0 }]);

    await Promise.all(senders.map((sender) => sender.stop()));
    for (const { accepted, losses, refusals } of senders) {
      expect(await missing(weir.database, accepted)).toEqual([]);
      expect(losses).toEqual([]);
      expect(refusals.filter(({ code }) => code !== 'database_unavailable')).toEqual([]);
    }
    const ids = senders.flatMap((sender) => [...sender.accepted.keys()]);
    await until(() => ids.every((id) => claimer.claimed.has(id)));
    await claimer.stop();
    if (FAILOVERS > 1) {
      const [promotedMs, total] = [await promoted, ids.length];
      console.log(
        `promoted after ${seconds(promotedMs - killedMs)} s, writes resumed ${seconds(resumedMs - promotedMs)} s later; ` +
          `${total} events answered 202 (${accepted} before), 0 lost`,
      );
    }
  }
});

const seconds = (ms: number) => (ms / 1000).toFixed(2);

/** Claims and acknowledges until it is stopped, whatever it is answered. `claimed`: ids of events. */
function startClaimer(agent: TestAgent): { claimed: Set<string>; stop: () => Promise<void> } {
  const claimed = new Set<string>();
  let stopped = false;
  const claim = async () => {
    while (!stopped) {
      const deliveries = await agent
        .claim({ max: 500, wait_seconds: 1, lease_seconds: 30 })
        .catch(() => delay(PAUSE_MS, []));
      for (const { event } of deliveries) claimed.add(event.id);
      if (deliveries.length > 0) await agent.ack(deliveries.map(({ receipt }) => receipt)).catch(() => {});
    }
  };
  const running = claim();
  const stop = () => {
    stopped = true;
    return running;
  };
  return { claimed, stop };
}
