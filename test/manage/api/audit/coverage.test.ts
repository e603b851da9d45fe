/** Every operation that changes something writes exactly one entry, and no entry contains a secret. */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OperationName, userRoutes } from '../../../../server/manage/api/routes.ts';
import { setupAddress } from '../../../../server/manage/auth/setup.ts';
import { derivedKeys, loadSecretsKeys } from '../../../../server/store/secrets/keys.ts';
import { addAgent, send } from '../../../helpers/agents.ts';
import { startTestApp, type TestApp } from '../../../helpers/app.ts';
import { weir, weirWith } from '../../../helpers/command.ts';
import { type Answer, addPerson, request, type TestPerson } from '../../../helpers/people.ts';
import { emptyDatabase, type FreshDatabase } from '../../../helpers/postgres.ts';
import { relayTo } from '../../../helpers/relay.ts';
import { someKey, temporaryDirectory } from '../../../helpers/settings.ts';
import { until } from '../../../helpers/wait.ts';

let app: TestApp;
/** Has no administrator yet. */
let fresh: TestApp;
let administrator: TestPerson;
beforeAll(async () => {
  // Nothing listens on port 1.
  app = await startTestApp({ ALERT_URL: 'http://127.0.0.1:1/', ALERT_PRIVATE_NETWORKS: 'allow', SECRETS_KEY: someKey });
  fresh = await startTestApp();
  administrator = await addPerson(app, 'administrator');
});
afterAll(async () => {
  await fresh.stop();
  await app.stop();
  for (const cell of cells) await cell.drop();
});

/** A command on the machine of Weir, with the key of the app. */
async function byCommand(...args: string[]): Promise<void> {
  const { code, err } = await weirWith(app, { SECRETS_KEY: someKey }, ...args);
  if (code !== 0) throw new Error(err);
}

const cells: FreshDatabase[] = [];

function fileOf({ name, conninfo }: FreshDatabase): string {
  const path = join(temporaryDirectory(), name);
  writeFileSync(path, conninfo);
  return path;
}

/** Adds a cell; returns its number. */
async function newCell(): Promise<string> {
  const cell = await emptyDatabase();
  cells.push(cell);
  await byCommand('cell', 'add', '--database-file', fileOf(cell), '--name', cell.name);
  const { items } = (await administrator.api('GET', '/api/v1/cells')).body;
  return String(items.at(-1).number);
}

/** Secrets in requests and responses; no entry may contain them. */
const secrets = new Set<string>();
const secret = (text: string): string => {
  secrets.add(text);
  return text;
};

const PASSWORD = secret('a passphrase of the tests');
const NEW_PASSWORD = secret('quite another passphrase');

/** A request of the administrator that must succeed; secrets in its response are collected. */
async function ask(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await administrator.api(method, path, body);
  expect([answer.status, answer.body?.errors]).toEqual([expect.toSatisfy((status) => status < 300), undefined]);
  for (const name of ['token', 'credential', 'secret', 'password', 'csrf_token'])
    if (typeof answer.body?.[name] === 'string') secret(answer.body[name]);
  return answer;
}
const make = async (path: string, body: object): Promise<{ id: string }> => (await ask('POST', path, body)).body;

const newWebhook = () => make('/api/v1/webhooks', { name: 'orders', secret: secret(`wh ${randomUUID()}`) });
const newAgent = () => make('/api/v1/agents', { name: randomUUID() });
const newUser = async () => {
  const email = `${randomUUID()}@example.org`;
  return { ...(await make('/api/v1/users', { email, role: 'viewer', password: PASSWORD })), email };
};
const invited = async () => {
  const email = `${randomUUID()}@example.org`;
  const { body } = await ask('POST', '/api/v1/users', { email, role: 'viewer', invite: true });
  return { id: body.id as string, token: secret(new URL(body.invitation_url).searchParams.get('token')!) };
};
const signIn = (email: string, password = PASSWORD) =>
  request(`${app.url}/api/v1/session`, 'POST', { email, password }, {});

/** A signed-in browser; the headers of its requests. */
async function newSession(): Promise<Record<string, string>> {
  const { headers, body } = await signIn((await newUser()).email);
  const cookie = headers.get('set-cookie')!.split(';')[0]!;
  secret(cookie.split('=')[1]!);
  return { cookie, 'x-csrf-token': secret(body.csrf_token) };
}

/** An event with an agent that is subscribed to its webhook. */
async function newEvent(): Promise<string> {
  const webhook = await app.addWebhook();
  await addAgent(app, [webhook]);
  return send(webhook);
}

/** A finished delivery. */
async function newDeadDelivery(): Promise<{ id: string; agentId: string }> {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  const { id } = await agent.claimOne();
  await app.database.query({
    text: `update deliveries set state = 'dead', finished_at = now() where id = $1`,
    values: [id],
  });
  return { id, agentId: agent.id };
}

async function newRejection(): Promise<string> {
  const webhook = await app.addWebhook();
  await fetch(webhook.url, {
    method: 'POST',
    body: '{}',
    headers: { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` },
  });
  let id: string | undefined;
  await until(async () => {
    const { items } = (await ask('GET', `/api/v1/rejections?webhook_id=${webhook.id}`)).body;
    id = items[0]?.id;
    return id !== undefined;
  });
  return id!;
}

type Act = () => Promise<Answer>;
interface Scenario {
  /** Actions of the entries; setting up performs two, in this order. */
  action: string;
  /** Prepares the change; the returned function performs it. */
  prepare: () => Promise<Act>;
  /** The app in which the change is made, if it is not the usual one. */
  at?: () => TestApp;
}

/** A valid use of each operation. A new operation that changes something needs a row here. */
const scenarios: Partial<Record<OperationName, Scenario>> = {
  setUp: {
    action: 'user.create session.sign_in',
    at: () => fresh,
    prepare: async () => {
      const key = derivedKeys(loadSecretsKeys(fresh.settings), 'setup')[0]!;
      const address = new URL((await setupAddress(fresh.database, key, fresh.url))!);
      const input = {
        token: secret(address.searchParams.get('token')!),
        email: 'first@example.org',
        password: PASSWORD,
      };
      return () => request(`${fresh.url}/api/v1/setup`, 'POST', input, {});
    },
  },
  signIn: {
    action: 'session.sign_in',
    prepare: async () => {
      const { email } = await newUser();
      return () => signIn(email);
    },
  },
  signOut: {
    action: 'session.sign_out',
    prepare: async () => {
      const fields = await newSession();
      return () => request(`${app.url}/api/v1/session`, 'DELETE', undefined, fields);
    },
  },
  endSessions: {
    action: 'session.sign_out_everywhere',
    prepare: async () => {
      const fields = await newSession();
      return () => request(`${app.url}/api/v1/account/sessions`, 'DELETE', undefined, fields);
    },
  },
  endSession: {
    action: 'session.end',
    prepare: async () => {
      const fields = await newSession();
      const { body } = await request(`${app.url}/api/v1/account/sessions`, 'GET', undefined, fields);
      return () => request(`${app.url}/api/v1/account/sessions/${body.items[0].id}`, 'DELETE', undefined, fields);
    },
  },
  changePassword: {
    action: 'account.password',
    prepare: async () => {
      const fields = await newSession();
      const input = { current_password: PASSWORD, new_password: NEW_PASSWORD };
      return () => request(`${app.url}/api/v1/account/password`, 'POST', input, fields);
    },
  },
  createWebhook: {
    action: 'webhook.create',
    prepare: async () => () =>
      ask('POST', '/api/v1/webhooks', { name: 'orders', secret: secret('given for a webhook') }),
  },
  updateWebhook: {
    action: 'webhook.update',
    prepare: async () => {
      const { id } = await newWebhook();
      return () => ask('PATCH', `/api/v1/webhooks/${id}`, { name: 'renamed' });
    },
  },
  deleteWebhook: {
    action: 'webhook.delete',
    prepare: async () => {
      const { id } = await newWebhook();
      return () => ask('DELETE', `/api/v1/webhooks/${id}`);
    },
  },
  rotateSecret: {
    action: 'webhook.rotate_secret',
    prepare: async () => {
      const { id } = await newWebhook();
      return () => ask('POST', `/api/v1/webhooks/${id}/rotate-secret`, { overlap_seconds: 60 });
    },
  },
  testWebhook: {
    action: 'webhook.test',
    prepare: async () => {
      const { id } = await newWebhook();
      return () => ask('POST', `/api/v1/webhooks/${id}/test`, {});
    },
  },
  createAgent: {
    action: 'agent.create',
    prepare: async () => () => ask('POST', '/api/v1/agents', { name: randomUUID() }),
  },
  updateAgent: {
    action: 'agent.update',
    prepare: async () => {
      const { id } = await newAgent();
      return () => ask('PATCH', `/api/v1/agents/${id}`, { name: 'renamed' });
    },
  },
  setSubscription: {
    action: 'agent.update',
    prepare: async () => {
      const [{ id }, webhook] = [await newAgent(), await app.addWebhook()];
      return () => ask('PUT', `/api/v1/agents/${id}/subscriptions/${webhook.id}`, { filter: 'bytes > 0' });
    },
  },
  rotateAgent: {
    action: 'agent.rotate',
    prepare: async () => {
      const { id } = await newAgent();
      return () => ask('POST', `/api/v1/agents/${id}/rotate`, {});
    },
  },
  revokeAgent: {
    action: 'agent.revoke',
    prepare: async () => {
      const { id } = await newAgent();
      return () => ask('DELETE', `/api/v1/agents/${id}`);
    },
  },
  replayEvent: {
    action: 'event.replay',
    prepare: async () => {
      const id = await newEvent();
      return () => ask('POST', `/api/v1/events/${id}/replay`, {});
    },
  },
  replayEvents: {
    action: 'job.create',
    prepare: async () => {
      await newEvent();
      return () => ask('POST', '/api/v1/events/replay', {});
    },
  },
  cancelJob: {
    action: 'job.cancel',
    prepare: async () => {
      await newEvent();
      const { job_id } = (await ask('POST', '/api/v1/events/replay', {})).body;
      return () => ask('POST', `/api/v1/jobs/${job_id}/cancel`);
    },
  },
  snoozeCondition: {
    action: 'condition.snooze',
    prepare: async () => {
      const { agentId } = await newDeadDelivery();
      return () => ask('POST', `/api/v1/conditions/dead_letters:${agentId}/snooze`, { for: '1h' });
    },
  },
  testAlert: {
    action: 'alert.test',
    prepare: async () => () => ask('POST', '/api/v1/alerts/test'),
  },
  replayDelivery: {
    action: 'delivery.replay',
    prepare: async () => {
      const { id } = await newDeadDelivery();
      return () => ask('POST', `/api/v1/deliveries/${id}/replay`);
    },
  },
  replayDeliveries: {
    action: 'delivery.replay',
    prepare: async () => {
      const { agentId } = await newDeadDelivery();
      return () => ask('POST', '/api/v1/deliveries/replay', { agent_id: agentId, state: 'dead' });
    },
  },
  dismissDelivery: {
    action: 'delivery.dismiss',
    prepare: async () => {
      const { id } = await newDeadDelivery();
      return () => ask('POST', `/api/v1/deliveries/${id}/dismiss`);
    },
  },
  dismissDeliveries: {
    action: 'delivery.dismiss',
    prepare: async () => {
      const { agentId } = await newDeadDelivery();
      return () => ask('POST', '/api/v1/deliveries/dismiss', { agent_id: agentId });
    },
  },
  undoDeliveries: {
    action: 'delivery.undo',
    prepare: async () => {
      const { agentId } = await newDeadDelivery();
      const { action_id } = (await ask('POST', '/api/v1/deliveries/dismiss', { agent_id: agentId })).body;
      return () => ask('POST', '/api/v1/deliveries/undo', { action_id });
    },
  },
  addCell: {
    action: 'cell.add',
    prepare: async () => {
      const cell = await emptyDatabase();
      const { url, close } = await relayTo(cell);
      cells.push({ ...cell, drop: () => cell.drop().finally(close) });
      return () => ask('POST', '/api/v1/cells', { name: cell.name, database: secret(url) });
    },
  },
  updateCell: {
    action: 'cell.update',
    prepare: async () => {
      const number = await newCell();
      return () => ask('PATCH', `/api/v1/cells/${number}`, { name: 'renamed' });
    },
  },
  drainCell: {
    action: 'cell.drain',
    prepare: async () => {
      const number = await newCell();
      return () => ask('POST', `/api/v1/cells/${number}/drain`);
    },
  },
  removeCell: {
    action: 'cell.remove',
    prepare: async () => {
      const number = await newCell();
      await ask('POST', `/api/v1/cells/${number}/drain`);
      return () => ask('DELETE', `/api/v1/cells/${number}`, {});
    },
  },
  moveWebhook: {
    action: 'webhook.move',
    prepare: async () => {
      const webhook = await app.addWebhook();
      const number = await newCell();
      return () => ask('POST', `/api/v1/webhooks/${webhook.id}/move`, { cell: Number(number) });
    },
  },
  settleUndelivered: {
    action: 'delivery.dismiss',
    prepare: async () => {
      const webhook = await app.addWebhook();
      const agent = await addAgent(app, [webhook]);
      await send(webhook);
      await ask('DELETE', `/api/v1/agents/${agent.id}`);
      return () => ask('POST', `/api/v1/agents/${agent.id}/undelivered`, { to_agent_id: null });
    },
  },
  acceptRejection: {
    action: 'rejection.accept',
    prepare: async () => {
      const id = await newRejection();
      const { webhook_id } = (await ask('GET', `/api/v1/rejections/${id}`)).body;
      // Without a secret no signature is required.
      await app.database.query({ text: 'delete from webhook_secrets where webhook_id = $1', values: [webhook_id] });
      return () => ask('POST', `/api/v1/rejections/${id}/accept`, {});
    },
  },
  acceptRejections: {
    action: 'rejection.accept',
    prepare: async () => {
      const id = await newRejection();
      const { webhook_id } = (await ask('GET', `/api/v1/rejections/${id}`)).body;
      await app.database.query({ text: 'delete from webhook_secrets where webhook_id = $1', values: [webhook_id] });
      await ask('POST', `/api/v1/rejections/${id}/recheck`, {});
      return () => ask('POST', '/api/v1/rejections/accept', { webhook_id });
    },
  },
  fixRejection: {
    action: 'webhook.rotate_secret rejection.fix',
    prepare: async () => {
      const id = await newRejection();
      return () => ask('POST', `/api/v1/rejections/${id}/fix`, { kind: 'set_secret', secret: 'what the sender has' });
    },
  },
  recheckRejection: {
    action: 'rejection.recheck',
    prepare: async () => {
      const id = await newRejection();
      return () => ask('POST', `/api/v1/rejections/${id}/recheck`, {});
    },
  },
  createToken: {
    action: 'token.create',
    prepare: async () => () => ask('POST', '/api/v1/tokens', { name: 'ci', role: 'viewer' }),
  },
  revokeToken: {
    action: 'token.revoke',
    prepare: async () => {
      const { id } = await make('/api/v1/tokens', { name: 'ci', role: 'viewer' });
      return () => ask('DELETE', `/api/v1/tokens/${id}`);
    },
  },
  createUser: {
    action: 'user.create',
    prepare: async () => () => ask('POST', '/api/v1/users', { email: `${randomUUID()}@example.org`, role: 'viewer' }),
  },
  updateUser: {
    action: 'user.reset_password',
    prepare: async () => {
      const { id } = await newUser();
      return () => ask('PATCH', `/api/v1/users/${id}`, { role: 'operator', password: NEW_PASSWORD });
    },
  },
  inviteUser: {
    action: 'user.invite',
    prepare: async () => {
      const { id } = await invited();
      return () => ask('POST', `/api/v1/users/${id}/invitation`);
    },
  },
  revokeInvitation: {
    action: 'user.revoke_invitation',
    prepare: async () => {
      const { id } = await invited();
      return () => ask('DELETE', `/api/v1/users/${id}/invitation`);
    },
  },
  acceptInvitation: {
    action: 'user.accept_invitation session.sign_in',
    prepare: async () => {
      const { token } = await invited();
      return () =>
        request(
          `${app.url}/api/v1/invitation`,
          'POST',
          { token, password: NEW_PASSWORD },
          { origin: app.settings.PUBLIC_URL },
        );
    },
  },
  deleteUser: {
    action: 'user.delete',
    prepare: async () => {
      const { id } = await newUser();
      return () => ask('DELETE', `/api/v1/users/${id}`);
    },
  },
};

/** The operations that are not GET and change nothing. */
const reading: readonly string[] = ['testFilter'];
const changing = userRoutes
  .filter(([method, , name]) => (method as string) !== 'GET' && !reading.includes(name))
  .map(([, , name]) => name);

const entriesOf = ({ database }: TestApp) =>
  database.query<{ text: string; action: string }>({
    text: 'select entry::text as text, action from audit_log order by number',
  });

describe('every operation that changes something writes one entry:', () => {
  test.each(changing)('%s', async (name) => {
    const scenario = scenarios[name];
    if (scenario === undefined)
      throw new Error(`${name} is not GET and has no scenario here: add one that uses it as it is meant to be used`);
    const place = scenario.at?.() ?? app;
    const act = await scenario.prepare();
    const before = (await entriesOf(place)).length;
    const { status, headers } = await act();
    expect(status).toBeLessThan(300);
    const cookie = headers.get('set-cookie');
    if (cookie !== null && !cookie.includes('=;')) secret(cookie.split(/[=;]/)[1]!);
    const entries = (await entriesOf(place)).slice(before);
    expect(entries.map(({ action }) => action).join(' ')).toBe(scenario.action);
    const { at, actor, target } = JSON.parse(entries[0]!.text);
    expect(new Date(at).getTime()).toBeGreaterThan(Date.now() - 60_000);
    expect(actor.address).toBe('127.0.0.1');
    expect(actor.request_id).toBe(headers.get('x-request-id'));
    expect([target.kind, target.name]).toEqual([expect.any(String), expect.any(String)]);
  });

  test('a refused operation writes no entry', async () => {
    const viewer = await addPerson(app, 'viewer');
    const before = (await entriesOf(app)).length;
    const done: string[] = [];
    for (const [method, path, name, access] of userRoutes) {
      if ((method as string) === 'GET' || access === 'anyone') continue;
      const { status } = await viewer.api(method, path.replace(/:\w+/g, randomUUID()), { nonsense: 1 });
      if (status < 300) done.push(name);
    }
    expect(done).toEqual([]);
    expect(await entriesOf(app)).toHaveLength(before);
  });
});

test('no entry contains a secret, a token, a password or a hash of one', async () => {
  const [row] = await app.database.query<{ hashes: Buffer[]; passwords: string[] }>({
    text: `select
      (select array_agg(hash) from (
        select secret_hash as hash from api_tokens union all select secret_hash from agents union all select token_hash from sessions
        union all select invitation_hash from users where invitation_hash is not null
      ) all_hashes) as hashes,
      (select array_agg(password_hash) from users where password_hash is not null) as passwords`,
  });
  const stored = [
    ...row!.passwords,
    ...row!.hashes.flatMap((hash) => [hash.toString('hex'), hash.toString('base64'), hash.toString('base64url')]),
  ];
  const text = [...(await entriesOf(app)), ...(await entriesOf(fresh))].map((entry) => entry.text).join('\n');
  expect(secrets.size).toBeGreaterThan(10);
  expect(stored.length).toBeGreaterThan(30);
  expect([...secrets, ...stored].filter((each) => text.includes(each))).toEqual([]);
  expect(text).not.toMatch(/w[uas]_[0-9A-Za-z]{12}|\$argon2|password_hash|secret_hash/);
});

test('commands are recorded with the system user and no address', async () => {
  const [first] = (await entriesOf(app)).slice(-1);
  const made = await weir(app, 'webhook', 'add', '--name', 'by command', '--generate-secret', '--json');
  expect(made.code).toBe(0);
  const entries = (await entriesOf(app)).slice(-1).map(({ text }) => JSON.parse(text));
  expect(entries).not.toEqual([JSON.parse(first!.text)]);
  expect(entries[0]).toMatchObject({
    action: 'webhook.create',
    actor: { kind: 'command', id: null, address: null, token_id: null, request_id: expect.any(String) },
  });
  expect(entries[0].actor.name).not.toBe('');
  expect(JSON.stringify(entries[0])).not.toContain(JSON.parse(made.out).secret);
});
