/** Every operation that changes something answers as documented and writes exactly one entry, and no entry contains a secret. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OperationName, userRoutes } from '../../../../server/manage/api/routes.ts';
import { setupAddress } from '../../../../server/manage/auth/setup.ts';
import { derivedKeys, loadSecretsKeys } from '../../../../server/store/secrets/keys.ts';
import { addAgent, send } from '../../../helpers/agents.ts';
import { startTestApp, type TestApp } from '../../../helpers/app.ts';
import { type Answer, addPerson, request, type TestPerson } from '../../../helpers/people.ts';
import { emptyDatabase } from '../../../helpers/postgres.ts';
import { relayTo } from '../../../helpers/relay.ts';
import { shared } from '../../../helpers/shared.ts';
import { inputs, makeWorld, pathTo, type World } from '../../../helpers/world.ts';

let world: World;
let app: TestApp;
let administrator: TestPerson;
/** Has no administrator yet. */
const fresh = shared(startTestApp);
const cells: (() => Promise<void>)[] = [];
beforeAll(async () => {
  // Nothing listens on port 1.
  world = await makeWorld({ ALERT_URL: 'http://127.0.0.1:1/', ALERT_PRIVATE_NETWORKS: 'allow' });
  app = world.app;
  administrator = await addPerson(app, 'administrator', PASSWORD);
});
afterAll(async () => {
  await app.stop();
  for (const drop of cells) await drop();
});

/** Secrets in requests and responses; no entry may contain them. */
const secrets = new Set<string>();
const secret = (text: string): string => {
  secrets.add(text);
  return text;
};

const PASSWORD = secret('correct horse battery staple');
const NEW_PASSWORD = secret('quite another passphrase');

/** A request of the administrator that must succeed; secrets in its response are collected. */
async function ask(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await administrator.api(method, path, body);
  expect([answer.status, answer.body?.errors]).toEqual([expect.toSatisfy((status) => status < 300), undefined]);
  for (const name of ['token', 'credential', 'secret', 'password', 'csrf_token'])
    if (typeof answer.body?.[name] === 'string') secret(answer.body[name]);
  return answer;
}

async function invited(): Promise<{ id: string; token: string }> {
  const { body } = await ask('POST', '/api/v1/users', { email: `${randomUUID()}@a.org`, role: 'viewer', invite: true });
  return { id: body.id, token: secret(new URL(body.invitation_url).searchParams.get('token')!) };
}

async function signIn(): Promise<Answer> {
  const { email } = await addPerson(app, 'viewer', PASSWORD);
  return request(`${app.url}/api/v1/session`, 'POST', { email, password: PASSWORD }, {});
}

/** A request of a browser that has just signed in. */
async function browse(method: string, path: (own: Record<string, string>) => Promise<string> | string, body?: unknown) {
  const { headers, body: session } = await signIn();
  const cookie = headers.get('set-cookie')!.split(';')[0]!;
  secret(cookie.split('=')[1]!);
  const own = { cookie, 'x-csrf-token': secret(session.csrf_token) };
  const url = app.url + (await path(own));
  return () => request(url, method, body, own);
}

/** Adds a cell; returns its number. */
async function newCell(): Promise<number> {
  return (await (await addCell())()).body.number;
}
async function addCell(): Promise<Act> {
  const cell = await emptyDatabase();
  const { url, close } = await relayTo(cell);
  cells.push(() => cell.drop().finally(close));
  return () => ask('POST', '/api/v1/cells', { name: cell.name, database: secret(url) });
}

type Act = () => Promise<Answer>;

/** How operations are prepared for which an id of its collection and an input of the world are not enough; the result performs it. */
const prepared: Partial<Record<OperationName, () => Promise<Act>>> = {
  setUp: async () => {
    const key = derivedKeys(loadSecretsKeys(fresh.settings), 'setup')[0]!;
    const address = new URL((await setupAddress(fresh.database, key, fresh.url))!);
    const token = secret(address.searchParams.get('token')!);
    return () =>
      request(`${fresh.url}/api/v1/setup`, 'POST', { token, email: 'first@example.org', password: PASSWORD }, {});
  },
  signIn: async () => signIn,
  signOut: () => browse('DELETE', () => '/api/v1/session'),
  endSessions: () => browse('DELETE', () => '/api/v1/account/sessions'),
  endSession: () =>
    browse('DELETE', async (own) => {
      const { body } = await request(`${app.url}/api/v1/account/sessions`, 'GET', undefined, own);
      return `/api/v1/account/sessions/${body.items.find(({ current }: { current: boolean }) => current).id}`;
    }),
  changePassword: () =>
    browse('POST', () => '/api/v1/account/password', { current_password: PASSWORD, new_password: NEW_PASSWORD }),
  createWebhook: async () => () => ask('POST', '/api/v1/webhooks', { name: 'orders', secret: secret('given by me') }),
  endPreviousSecret: async () => {
    const id = await world.make('webhooks');
    await ask('POST', `/api/v1/webhooks/${id}/rotate-secret`, { overlap_seconds: 60 });
    return () => ask('DELETE', `/api/v1/webhooks/${id}/secrets/previous`);
  },
  updateUser: async () => {
    const id = await world.make('users');
    return () => ask('PATCH', `/api/v1/users/${id}`, { role: 'operator', password: NEW_PASSWORD });
  },
  revokeInvitation: async () => {
    const { id } = await invited();
    return () => ask('DELETE', `/api/v1/users/${id}/invitation`);
  },
  acceptInvitation: async () => {
    const { token } = await invited();
    const origin = app.settings.PUBLIC_URL;
    return () => request(`${app.url}/api/v1/invitation`, 'POST', { token, password: NEW_PASSWORD }, { origin });
  },
  addCell,
  updateCell: async () => {
    const number = await newCell();
    return () => ask('PATCH', `/api/v1/cells/${number}`, { name: 'renamed' });
  },
  drainCell: async () => {
    const number = await newCell();
    return () => ask('POST', `/api/v1/cells/${number}/drain`);
  },
  removeCell: async () => {
    const number = await newCell();
    await ask('POST', `/api/v1/cells/${number}/drain`);
    return () => ask('DELETE', `/api/v1/cells/${number}`, {});
  },
  moveWebhook: async () => {
    const [id, cell] = [await world.make('webhooks'), await newCell()];
    return () => ask('POST', `/api/v1/webhooks/${id}/move`, { cell });
  },
  settleUndelivered: async () => {
    const webhook = await app.addWebhook();
    const { id } = await addAgent(app, [webhook]);
    await send(webhook);
    await ask('DELETE', `/api/v1/agents/${id}`);
    return () => ask('POST', `/api/v1/agents/${id}/undelivered`, { to_agent_id: null });
  },
  acceptRejections: async () => {
    const id = await world.make('rejections');
    const { webhook_id } = (await ask('GET', `/api/v1/rejections/${id}`)).body;
    await ask('POST', `/api/v1/rejections/${id}/recheck`, {});
    return () => ask('POST', '/api/v1/rejections/accept', { webhook_id });
  },
};

/** Actions of the entries, where they are not those of `actionsOf`. */
const actions: Partial<Record<OperationName, string>> = {
  setUp: 'user.create session.sign_in',
  signIn: 'session.sign_in',
  signOut: 'session.sign_out',
  endSessions: 'session.sign_out_everywhere',
  changePassword: 'account.password',
  rotateSecret: 'webhook.rotate_secret',
  endPreviousSecret: 'webhook.end_previous_secret',
  setSubscription: 'agent.update',
  endSubscription: 'agent.update',
  replayEvents: 'job.create',
  settleUndelivered: 'delivery.dismiss',
  fixRejection: 'webhook.rotate_secret rejection.fix',
  updateUser: 'user.reset_password',
  revokeInvitation: 'user.revoke_invitation',
  acceptInvitation: 'user.accept_invitation session.sign_in',
};

/** The operation replayDeliveries has the action delivery.replay. */
function actionsOf(name: OperationName): string {
  const [, verb, noun] = /^([a-z]+)([A-Z][a-z]+?)(?:s|ies)?$/.exec(name) ?? [];
  return actions[name] ?? `${noun?.toLowerCase().replace(/deliver$/, 'delivery')}.${verb}`;
}

/** The operations that are not GET and change nothing. */
const reading: readonly string[] = ['testFilter'];
const changing = userRoutes.filter(([method, , name]) => (method as string) !== 'GET' && !reading.includes(name));

async function prepare(method: string, path: string, name: OperationName): Promise<Act> {
  const act = await prepared[name]?.();
  if (act !== undefined) return act;
  const collection = path.split('/')[3]!;
  const id = path.includes(':id') || collection === 'deliveries' ? await world.make(collection) : '';
  return () => ask(method, pathTo(path, id, world), inputs[name]?.(world) ?? {});
}

const entriesOf = ({ database }: TestApp) =>
  database.query<{ text: string; action: string }>({
    text: 'select entry::text as text, action from audit_log order by number',
  });

describe('every operation that changes something writes one entry:', () => {
  test.each(changing.map(([method, path, name]) => ({ method, path, name })))(
    '$name',
    async ({ method, path, name }) => {
      const place = name === 'setUp' ? fresh : app;
      const act = await prepare(method, path, name);
      const before = (await entriesOf(place)).length;
      const answer = await act();
      const { status, headers } = answer;
      expect(status).toBeLessThan(300);
      expect(world.api.faults(world.api.operation(name), answer)).toEqual([]);
      const cookie = headers.get('set-cookie');
      if (cookie !== null && !cookie.includes('=;')) secret(cookie.split(/[=;]/)[1]!);
      const entries = (await entriesOf(place)).slice(before);
      expect(entries.map(({ action }) => action).join(' ')).toBe(actionsOf(name));
      const { at, actor, target } = JSON.parse(entries[0]!.text);
      expect(new Date(at).getTime()).toBeGreaterThan(Date.now() - 60_000);
      expect(actor.address).toBe('127.0.0.1');
      expect(actor.request_id).toBe(headers.get('x-request-id'));
      expect([target.kind, target.name]).toEqual([expect.any(String), expect.any(String)]);
    },
  );

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
  const [row] = await app.sql<{ hashes: Buffer[]; passwords: string[] }>(`select
      (select array_agg(hash) from (
        select secret_hash as hash from api_tokens union all select secret_hash from agents union all select token_hash from sessions
        union all select invitation_hash from users where invitation_hash is not null
      ) all_hashes) as hashes,
      (select array_agg(password_hash) from users where password_hash is not null) as passwords`);
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
