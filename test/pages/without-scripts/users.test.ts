/** Users, tokens and the audit log, by a browser without scripts. */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { pageRoutes } from '../../../server/manage/api/routes.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, PASSWORD, request, signIn } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { Visitor } from '../../helpers/visitor.ts';

const app = shared(startPagesApp);
const administrator = shared(() => addPerson(app, 'administrator', PASSWORD));
let visitor: Visitor;
beforeAll(async () => {
  visitor = new Visitor(app, administrator);
});

const mine = { 'Your password': PASSWORD };

/** Pages on which every user can change their own data. */
const ownPages = ['/account', '/account/tokens', '/account/tokens/new', '/tokens', '/sign-in', '/setup'];
const viewerPages = pageRoutes
  .filter(([method, path, , access]) => method === 'GET' && access === 'viewer' && !path.includes(':'))
  .map(([, path]) => path)
  .filter((path) => !ownPages.includes(path));

test('a new user chooses a password with the link that was shown once, and can only read', async () => {
  const email = `colleague-${randomUUID()}@example.org`;
  await visitor.open('/users');
  await visitor.follow('New user');
  await visitor.press('Create user', { Email: 'no address' });
  expect(visitor.error('email')).not.toBeNull();
  await visitor.press('Create user', { Email: email, Name: 'A colleague', ...mine });
  const link = visitor.once;
  await visitor.follow('I have stored it');
  expect(visitor.text).toMatch(new RegExp(`${email}.*invited.*The invitation link is valid until`));
  expect(visitor.html).not.toContain(new URL(link).searchParams.get('token'));

  const theirs = new Visitor(app, null);
  await theirs.open(link);
  const button = 'Set password and sign in';
  expect(theirs.entry(button, 'Email')).toBe(email);
  await theirs.press(button, { Password: email });
  expect(theirs.error('password')).not.toBeNull();
  await theirs.press(button, { Password: 'a passphrase that they chose' });
  expect(theirs.path).toMatch(/^\/\?notice=invitation-accepted/);
  expect(theirs.html).toContain('href="/webhooks"');
  for (const path of ['/users', '/audit']) expect(theirs.html).not.toContain(`href="${path}"`);
  for (const path of viewerPages) {
    await theirs.open(path);
    expect(theirs.main, path).not.toMatch(/<form[^>]* method="post"|<a [^>]*href="[^"]*\/new"/);
  }
});

test('an administrator changes name and role, disables, enables, sets a password and deletes', async () => {
  const viewer = await addPerson(app, 'viewer');
  const account = () => viewer.api('GET', '/api/v1/account');
  await visitor.open(`/users/${viewer.id}`);
  await visitor.press('Save', { Name: 'Grace', Role: 'operator', 'Your password': 'not the password' });
  expect(visitor.error('current_password-role')).toBe('This is not your password.');
  expect(visitor.html.match(/id="e-current_password/g)).toHaveLength(1);
  expect([visitor.entry('Save', 'Name'), visitor.entry('Save', 'Role')]).toEqual(['Grace', 'operator']);
  await visitor.press('Save', mine);
  expect(visitor.text).toContain('Saved.');
  expect((await viewer.browse('GET', '/api/v1/account')).body).toMatchObject({ name: 'Grace', role: 'operator' });

  await visitor.press('Disable user now', mine);
  expect(visitor.text).toContain('The user is disabled.');
  expect((await account()).status).toBe(401);
  await visitor.press('Enable user', mine);
  expect(visitor.text).toContain('The user is enabled.');
  expect((await account()).status).toBe(200);

  await visitor.press('Set new password', { 'New password': 'short', ...mine });
  expect(visitor.error('password')).not.toBeNull();
  await visitor.press('Set new password', mine);
  const password = visitor.once;
  expect(visitor.text).toContain('1 API token revoked.');
  expect((await account()).status).toBe(401);
  expect((await signIn(app, viewer.email, password)).status).toBe(200);

  await visitor.follow('I have stored it');
  expect(visitor.html).not.toContain(password);
  const confirm = `Type ${viewer.email} to confirm`;
  await visitor.press('Delete user', { [confirm]: 'somebody else', ...mine });
  expect(visitor.error('confirmed')).not.toBeNull();
  await visitor.press('Delete user', { [confirm]: viewer.email, 'Your password': 'not the password' });
  expect(visitor.error('current_password-delete')).not.toBeNull();
  expect(visitor.entry('Delete user', confirm)).toBe(viewer.email);
  await visitor.press('Delete user', mine);
  expect(visitor.text).toContain('Deleted.');
  await visitor.open(`/users/${viewer.id}`);
  expect(visitor.status).toBe(404);
});

test('an administrator who lowers the own role is led to the account', async () => {
  const other = await addPerson(app, 'administrator', PASSWORD);
  const saved = await other.submit(`/users/${other.id}`, { name: '', role: 'operator', current_password: PASSWORD });
  expect([saved.status, saved.location]).toEqual([303, expect.stringContaining('/account?notice=saved&proof=')]);
});

test('the last administrator cannot be removed, and the error is shown at the form that was used', async () => {
  await visitor.open(`/users/${administrator.id}`);
  await visitor.press('Save', { Role: 'viewer', ...mine });
  expect(visitor.error('role')).toMatch(/^This is the last active administrator/);
  expect(visitor.entry('Save', 'Role')).toBe('viewer');
  await visitor.press('Disable user now', mine);
  expect(visitor.html).toMatch(/<h2>Disable<\/h2>(?:(?!<\/section>)[\s\S])*This is the last active administrator/);
  await visitor.press('Delete user', { [`Type ${administrator.email} to confirm`]: administrator.email, ...mine });
  expect(visitor.error('confirmed')).toMatch(/^This is the last active administrator/);
});

const withToken = (token: string) =>
  request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });

test('a user creates a token, sees it once, uses it and revokes it', async () => {
  const operator = await addPerson(app, 'operator', PASSWORD);
  const theirs = new Visitor(app, operator);
  await theirs.open('/account/tokens');
  await theirs.follow('New token');
  const entries = { Name: 'nightly report', Role: 'viewer', 'Expires after': '30 days' };
  await theirs.press('Create token', { ...entries, 'Your password': 'not the password' });
  expect(theirs.error('current_password')).toBe('This is not your password.');
  expect(theirs.entry('Create token', 'Name')).toBe('nightly report');
  expect(theirs.entry('Create token', 'Expires after')).toBe('30');
  await theirs.press('Create token', mine);
  const token = theirs.once;
  expect((await withToken(token)).body).toMatchObject({ id: operator.id, role: 'viewer' });
  const [stored] = (await operator.api('GET', '/api/v1/tokens')).body.items;
  expect(Date.parse(stored.expires_at) - Date.parse(stored.created_at)).toBeCloseTo(30 * 86_400_000, -4);

  await theirs.follow('I have stored it');
  expect(theirs.path).toBe(`/account/tokens/${stored.id}`);
  expect(theirs.html).not.toContain(token);
  await theirs.press('Revoke now');
  expect(theirs.text).toContain('The token is revoked');
  expect(theirs.html).not.toContain('Revoke…');
  expect((await withToken(token)).status).toBe(401);
});

test('an administrator sees the tokens of all users', async () => {
  const viewer = await addPerson(app, 'viewer');
  const { body: made } = await viewer.api('POST', '/api/v1/tokens', { name: 'of the viewer' });
  await visitor.open('/account/tokens');
  expect(visitor.html).not.toContain(made.id);
  await visitor.follow('All users');
  await visitor.follow(viewer.email);
  await visitor.follow('of the viewer');
  expect(visitor.path).toBe(`/account/tokens/${made.id}`);
});

test('an error of a token is shown beside its field, and the input is kept', async () => {
  const theirs = new Visitor(app, await addPerson(app, 'viewer', PASSWORD));
  await theirs.open('/account/tokens/new');
  await theirs.press('Create token', { Name: '   ', 'Expires after': 'a year', ...mine });
  expect(theirs.error('name')).toBe('Give 1 to 200 characters.');
  expect(theirs.html).toMatch(/<input id="f-name"[^>]* aria-invalid="true"/);
  expect(theirs.entry('Create token', 'Expires after')).toBe('365');
});

test('an administrator finds a change by its actor and reads the changed members', async () => {
  const viewer = await addPerson(app, 'viewer');
  const { body: token } = await viewer.api('POST', '/api/v1/tokens', { name: '<script>alert(1)</script>' });
  await administrator.api('DELETE', `/api/v1/tokens/${token.id}`);
  await visitor.open('/audit');
  await visitor.press('Filter', { 'Action begins with': 'token.revoke', By: administrator.email });
  expect(visitor.path).toMatch(/^\/audit\?.*action=token\.revoke/);
  const [, entry] = /href="(\/audit\/\d+)"/.exec(visitor.html)!;
  await visitor.open(entry!);
  expect(visitor.text).toContain(': token.revoke');
  const rowOf = (member: string) =>
    visitor.main.split('<tr').find((row) => row.includes(`class="name">${member}</th>`));
  expect(rowOf('state')).toMatch(/<del>active<\/del>[\s\S]*<ins>revoked<\/ins>/);
  expect(rowOf('name')).not.toMatch(/<(ins|del)>/);
  expect(rowOf('name')!.match(/&lt;script&gt;alert\(1\)&lt;\/script&gt;/g)).toHaveLength(2);
  await visitor.follow('Previous entry');
  expect(visitor.text).toContain(': token.create');
  expect(visitor.html).not.toContain('>Before<');
});
