/** Sign-in, set-up and account, by a browser without scripts. */
import { expect, test } from 'vitest';
import { setupAddress } from '../../../server/manage/auth/setup.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, cookieOf, givePassword, PASSWORD, signIn } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { Visitor } from '../../helpers/visitor.ts';

const app = shared(startPagesApp);

const NEW_PASSWORD = 'another long enough one';

test('the first administrator is created at the setup URL that the start printed', async () => {
  await app.sql('delete from users');
  const setupKey = derivedKeys(loadSecretsKeys(app.settings), 'setup')[0]!;
  const address = (await setupAddress(app.database, setupKey, app.settings.PUBLIC_URL))!;
  const visitor = new Visitor(app, null);
  await visitor.open(address);
  const ada = { Email: 'Ada@Example.org', Name: 'Ada' };
  await visitor.press('Set up', { ...ada, Password: 'ada@example.org' });
  expect(visitor.error('password')).toBe('The password must not be the email address or a part of it.');
  expect([visitor.entry('Set up', 'Name'), visitor.entry('Set up', 'Password')]).toEqual(['Ada', '']);

  await visitor.press('Set up', { Password: PASSWORD });
  expect(visitor.text).toContain('You are the administrator.');
  expect(visitor.html).toContain('Account: ada@example.org');
  await visitor.open(address);
  expect(visitor.status).toBe(404);
  expect(visitor.text).toContain('An administrator already exists');
});

test('a user signs in wrongly, then correctly, reaches the requested page, and signs out', async () => {
  const viewer = await addPerson(app, 'viewer');
  await givePassword(app, viewer);
  const visitor = new Visitor(app, null);
  await visitor.open('/deliveries?state=dead');
  expect(visitor.path).toBe('/sign-in?return_to=%2Fdeliveries%3Fstate%3Ddead');
  await visitor.press('Sign in', { Email: viewer.email, Password: 'not my password' });
  expect(visitor.text).toContain('The email or the password is wrong');
  expect([visitor.entry('Sign in', 'Email'), visitor.entry('Sign in', 'Password')]).toEqual([viewer.email, '']);
  await visitor.press('Sign in', { Password: PASSWORD });
  expect(visitor.path).toBe('/deliveries?state=dead');

  await visitor.press('Sign out');
  expect(visitor.text).toContain('You are signed out.');
  // The browser stays known; the session is gone.
  expect(visitor.cookieNames).toEqual(['weir_device']);
  await visitor.open('/');
  expect(visitor.path).toBe('/sign-in');
});

test('after failed sign-ins the page shows how long to wait', async () => {
  const viewer = await addPerson(app, 'viewer');
  await givePassword(app, viewer);
  for (let each = 0; each < 30; each++) if ((await signIn(app, viewer.email, 'a guess')).status === 429) break;
  const visitor = new Visitor(app, null);
  await visitor.open('/sign-in');
  await visitor.press('Sign in', { Email: viewer.email, Password: PASSWORD });
  expect([visitor.status, visitor.text]).toEqual([429, expect.stringMatching(/Try again in [1-9]\d* second/)]);
  await app.sql('delete from sign_in_failures');
});

test('a user changes the password; other browsers are signed out, this one is not', async () => {
  const viewer = await addPerson(app, 'viewer');
  await givePassword(app, viewer);
  const [here, elsewhere] = [new Visitor(app, null), new Visitor(app, null)];
  for (const visitor of [here, elsewhere]) {
    await visitor.open('/sign-in?return_to=/account');
    await visitor.press('Sign in', { Email: viewer.email, Password: PASSWORD });
    expect([visitor.status, visitor.path]).toEqual([200, '/account']);
  }
  await here.open('/account');
  expect(here.main.match(/>this browser</g)).toHaveLength(1);
  expect(here.html.match(/action="\/account\/sessions\/[^/]+\/end"/g)).toHaveLength(2);

  const change = (present: string, next: string, again: string) =>
    here.press('Change password', {
      'Current password': present,
      'New password': next,
      'Confirm new password': again,
    });
  await change(PASSWORD, NEW_PASSWORD, 'a third one, by mistake');
  expect(here.error('new_password_again')).not.toBeNull();
  await change('not my password', NEW_PASSWORD, NEW_PASSWORD);
  expect(here.error('current_password')).not.toBeNull();
  await change(PASSWORD, 'short', 'short');
  expect(here.error('new_password')).not.toBeNull();
  await change(PASSWORD, NEW_PASSWORD, NEW_PASSWORD);
  expect(here.text).toContain('Your password is changed');
  expect(here.html.match(/action="\/account\/sessions\/[^/]+\/end"/g)).toHaveLength(1);
  await elsewhere.open('/account');
  expect(elsewhere.path).toBe('/sign-in?return_to=%2Faccount');
  expect((await signIn(app, viewer.email, PASSWORD)).status).toBe(401);
  expect((await signIn(app, viewer.email, NEW_PASSWORD)).status).toBe(200);
});

test('a user ends the session of another browser, then the own one', async () => {
  const viewer = await addPerson(app, 'viewer');
  await givePassword(app, viewer);
  const elsewhere = new Visitor(app, {
    cookie: cookieOf(await signIn(app, viewer.email, PASSWORD, { 'user-agent': 'curl/8.5.0' })),
  });
  const here = new Visitor(app, { cookie: cookieOf(await signIn(app, viewer.email)) });
  await here.open('/account');
  await here.press(/aria-label="(Sign out curl, signed in [^"]+)"/.exec(here.html)![1]!);
  expect(here.text).toContain('That browser is signed out.');
  await elsewhere.open('/account');
  expect(elsewhere.path).toBe('/sign-in?return_to=%2Faccount');
  await here.press(/aria-label="(Sign out [^"]+, signed in [^"]+)"/.exec(here.html)![1]!);
  expect(here.text).toContain('You are signed out.');
  expect(here.cookieNames).toEqual([]);
});

test('a user signs out everywhere', async () => {
  const viewer = await addPerson(app, 'viewer');
  const [here, elsewhere] = [new Visitor(app, viewer), new Visitor(app, viewer)];
  await here.open('/account');
  await here.press('Sign out everywhere now');
  expect(here.text).toContain('You are signed out everywhere.');
  expect(here.html).not.toContain('class="nav"');
  await elsewhere.open('/');
  expect(elsewhere.path).toBe('/sign-in');
});
