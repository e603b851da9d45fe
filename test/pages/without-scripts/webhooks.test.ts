/** The pages of a webhook and of an agent, by a browser without scripts. */
import { beforeAll, expect, test } from 'vitest';
import { presets } from '../../../server/model/signatures/presets.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, PASSWORD } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { Visitor } from '../../helpers/visitor.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
let visitor: Visitor;
beforeAll(async () => {
  visitor = new Visitor(app, operator);
});

test('a webhook is created, and a signed request is stored', async () => {
  await visitor.open('/webhooks/new');
  await visitor.follow('HMAC-SHA256 in hex (default)');
  await visitor.press('Create webhook', { Name: 'shop orders' });
  const secret = visitor.once;
  expect(secret).toMatch(/^[0-9a-f]{64}$/);
  const [, url] = / address"><code[^>]*>([^<]*)<\/code>/.exec(visitor.html)!;
  expect((await fetch(url!, signedRequest({ secret }))).status).toBe(202);
  await visitor.open('/webhooks');
  await visitor.follow('shop orders');
  expect(visitor.html.match(/href="\/events\/[0-9a-f-]{36}/g)?.length).toBeGreaterThan(0);
  expect(visitor.html).not.toContain(secret);
});

test('a sender is found by name, and its first request, which is refused, is fixed', async () => {
  await visitor.open('/webhooks/new');
  const [, label] = />(Search \d+ senders)</.exec(visitor.main)!;
  // As the documents count them.
  expect(label).toBe(`Search ${presets.filter(({ isGeneral }) => !isGeneral).length} senders`);
  await visitor.press('Search', { [label!]: 'GitHub' });
  expect(visitor.main.match(/class="card tile"/g)).toHaveLength(1);
  await visitor.follow('GitHub');
  expect(visitor.entry('Create webhook', 'Name')).toBe('GitHub');
  await visitor.press('Create webhook', { 'Provided by the sender': true, 'The sender’s secret': 'mistyped' });
  expect(visitor.text).toMatch(/Sender.*No request yet.*Agents.*None is subscribed.*Set up GitHub/);
  const [, url] = / address"><code[^>]*>([^<]*)<\/code>/.exec(visitor.main)!;
  const id = new URL(url!).pathname.slice('/in/'.length);
  const rejected = async () => (await operator.api('GET', `/api/v1/rejections?webhook_id=${id}`)).body.items;
  expect((await fetch(url!, signedRequest({ secret: 'the right one' }))).status).toBe(403);
  await until(async () => (await rejected()).length === 1);

  await visitor.open(`/webhooks/${id}`);
  await visitor.follow('Rejections');
  await visitor.follow('Paste the sender’s secret');
  await visitor.press('Use this secret', { 'The sender’s secret': 'the right one' });
  expect(visitor.text).toContain('1 rejected request verifies now.');
  expect((await fetch(url!, signedRequest({ secret: 'the right one' }))).status).toBe(202);
});

test('an error is shown beside its field, and the input is kept except secrets', async () => {
  await visitor.open('/webhooks/new?scheme=sha256');
  await visitor.press('Create webhook', {
    Name: 'bad header',
    'Signature header': 'no header name',
    'Provided by the sender': true,
    'The sender’s secret': 'not to be shown again',
  });
  expect(visitor.error('signature_header')).not.toBeNull();
  expect(visitor.html).toMatch(/<input id="f-signature_header"[^>]* aria-invalid="true"/);
  expect(visitor.entry('Create webhook', 'Name')).toBe('bad header');
  expect(visitor.html).not.toContain('not to be shown again');
});

test('it is edited, disabled, enabled, rotated with an overlap, and deleted by its name', async () => {
  const made = await app.addWebhook({ name: 'to be changed' });
  const statusWith = async (secret: string | null) => (await fetch(made.url, signedRequest({ secret }))).status;
  await visitor.open(`/webhooks/${made.id}`);
  await visitor.follow('Settings');
  await visitor.follow('Edit');
  await visitor.press('Save', { Name: 'changed' });
  expect(visitor.text).toMatch(/changed.*Saved\./);
  await visitor.press('Disable now');
  expect(visitor.text).toContain('The webhook is disabled. Requests get a 410 response.');
  expect(await statusWith(made.secret)).toBe(410);
  await visitor.press('Enable');
  expect(visitor.text).toContain('The webhook is enabled.');

  await visitor.follow('Secret');
  await visitor.press('Rotate secret now');
  const secret = visitor.once;
  expect([await statusWith(secret), await statusWith(made.secret)]).toEqual([202, 202]);
  await visitor.follow('I have stored it');
  expect(visitor.html).not.toContain(secret);
  await visitor.follow('Settings');
  await visitor.press('Delete webhook', { 'Type its name to confirm': 'another' });
  expect(visitor.text).toContain('Type changed to confirm.');
  await visitor.press('Delete webhook', { 'Type its name to confirm': 'changed' });
  expect(visitor.text).toContain('Deleted.');
  expect(await statusWith(secret)).toBe(404);
});

test('a signed test request is sent and its response is shown', async () => {
  const made = await app.addWebhook({ name: 'tested' });
  await visitor.open(`/webhooks/${made.id}`);
  await visitor.follow('Send test');
  await visitor.press('Send');
  expect(visitor.text).toContain('The test request got a 202 response');
});

test('an agent is created, shows its credential once, is rotated, and revoked by its name', async () => {
  await app.addWebhook({ name: 'repository' });
  const theirs = new Visitor(app, await addPerson(app, 'operator', PASSWORD));
  const [wrong, right] = [{ 'Your password': 'not the password' }, { 'Your password': PASSWORD }];
  await theirs.open('/agents/new');
  await theirs.press('Create agent', { Name: 'deploy bot', repository: true, ...wrong });
  expect(theirs.error('current_password')).toBe('This is not your password.');
  expect(theirs.entry('Create agent', 'Name')).toBe('deploy bot');
  expect(theirs.html).toMatch(/name="webhook_ids"[^>]* checked/);
  await theirs.press('Create agent', right);
  const credential = theirs.once;
  expect(credential).toMatch(/^wa_/);
  await theirs.follow('I have stored it');
  expect(theirs.html).not.toContain(credential);
  await theirs.press('Rotate credential now', wrong);
  expect(theirs.error('current_password-rotate')).toBe('This is not your password.');
  await theirs.press('Rotate credential now', right);
  expect(theirs.once).not.toBe(credential);
  await theirs.follow('I have stored it');
  await theirs.press('Revoke agent', { 'Type its name to confirm': 'deploy bot' });
  expect(theirs.text).toContain('Revoked.');
  expect(theirs.text).not.toContain('deploy bot');
});

test('a viewer sees it without any button for changes', async () => {
  const made = await app.addWebhook({ name: 'seen by a viewer' });
  const theirs = new Visitor(app, await addPerson(app, 'viewer'));
  await theirs.open(`/webhooks/${made.id}`);
  expect(theirs.main).not.toMatch(/<button(?![^>]* data-copy)/);
});
