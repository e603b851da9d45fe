/** Forms of operations that stop traffic or cannot be undone: each asks first, and does nothing without the confirmation. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, send } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, csrfToken, PASSWORD } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startPagesApp({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 }));
const administrator = shared(() => addPerson(app, 'administrator', PASSWORD));
/** Ids, and what is typed to confirm, by the kind of target. */
let targets: Record<'webhook' | 'agent' | 'revoked' | 'token' | 'user' | 'invited', string>;
let email: string;

beforeAll(async () => {
  const webhook = await app.addWebhook({ name: 'Orders' });
  const [agent, revoked] = await Promise.all([addAgent(app, [webhook]), addAgent(app, [webhook])]);
  await send(webhook);
  await app.sql(`update deliveries set state = 'dead', finished_at = now() where agent_id = $1`, agent.id);
  await administrator.api('DELETE', `/api/v1/agents/${revoked.id}`);
  const user = await addPerson(app, 'viewer');
  email = user.email;
  const tokens = (await administrator.api('GET', '/api/v1/tokens')).body.items;
  const invited = await administrator.browse('POST', '/api/v1/users', {
    email: 'invited@example.org',
    name: '',
    role: 'viewer',
    invite: true,
    current_password: PASSWORD,
  });
  await app.sql(`update agents set name = 'worker' where id = $1`, agent.id);
  targets = {
    webhook: webhook.id,
    agent: agent.id,
    revoked: revoked.id,
    token: tokens[0].id,
    user: user.id,
    invited: invited.body.id,
  };
});

async function post(path: string, fields: Record<string, string>) {
  const { cookie } = administrator;
  const body = new URLSearchParams({ csrf: await csrfToken(app.url, cookie), ...fields });
  const own = { cookie, origin: app.url };
  const answer = await fetch(app.url + path, { method: 'POST', body, headers: own, redirect: 'manual' });
  return { status: answer.status, text: await answer.text() };
}

const identity = { current_password: PASSWORD };

/** By the operation: the page, the path of its form below it or from the root, and its fields. */
const forms: [string, page: string, action: string, fields?: Record<string, string>, typed?: () => string][] = [
  ['updateWebhook', '/webhooks/{webhook}/settings', '/webhooks/{webhook}/switch', { enabled: 'false' }],
  ['rotateSecret', '/webhooks/{webhook}/secret', '/webhooks/{webhook}/rotate', { overlap_seconds: '3600' }],
  ['endPreviousSecret', '/webhooks/{webhook}/secret', '/webhooks/{webhook}/end-previous'],
  ['rotateAgent', '/agents/{agent}', '/agents/{agent}/rotate', { overlap_seconds: '0', ...identity }],
  ['settleUndelivered', '/agents/{revoked}', '/agents/{revoked}/undelivered'],
  ['dismissDeliveries', '/deliveries?state=dead', '/deliveries/dismiss'],
  ['revokeToken', '/account/tokens/{token}', '/account/tokens/{token}/revoke'],
  ['updateUser', '/users/{user}', '/users/{user}/disable', identity],
  ['revokeInvitation', '/users/{invited}', '/users/{invited}/invitation/revoke'],
  ['deleteWebhook', '/webhooks/{webhook}/settings', '/webhooks/{webhook}/delete', {}, () => 'Orders'],
  ['revokeAgent', '/agents/{agent}', '/agents/{agent}/revoke', {}, () => 'worker'],
  ['deleteUser', '/users/{user}', '/users/{user}/delete', identity, () => email],
  ['endSessions', '/account', '/account/sign-out-everywhere'],
];

test.each(forms)(
  '%s asks on its page, and is refused without the confirmation',
  async (_, page, action, fields, typed) => {
    const at = (path: string) => path.replace(/\{(\w+)\}/, (_, name: keyof typeof targets) => targets[name]);
    const html = await (await fetch(app.url + at(page), { headers: { cookie: administrator.cookie } })).text();
    const form = html
      .split('<form')
      .find((one) => one.includes(` action="${at(action)}"`) && one.includes('confirmed'));
    expect(form, `the form of ${action}`).toContain('name="confirmed"');
    const refused = await post(at(action), fields ?? {});
    expect([refused.status, refused.text]).toEqual([
      422,
      expect.stringContaining(typed === undefined ? 'Open the page again and confirm' : `Type ${typed()} to confirm.`),
    ]);
    if (typed !== undefined) expect((await post(at(action), { ...fields, confirmed: 'another' })).status).toBe(422);
    const done = await post(at(action), { ...fields, confirmed: typed?.() ?? 'yes' });
    expect([200, 303]).toContain(done.status);
  },
);
