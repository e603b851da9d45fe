/** A browser that signed in before has a separate counter. Each test uses its own accounts and addresses. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Exchange } from '../../../server/base/http/exchange.ts';
import { DEVICE_SECONDS, DeviceCookies } from '../../../server/manage/auth/device-cookies.ts';
import { ACCOUNT_LIMIT, ADDRESS_LIMIT, accountKey } from '../../../server/manage/auth/throttle.ts';
import { startTestApp, type TestApp } from '../../helpers/app.ts';
import { type Answer, addPerson, PASSWORD, signIn, type TestPerson } from '../../helpers/people.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp({ TRUSTED_PROXIES: '127.0.0.1' });
});
afterAll(() => app.stop());

let addresses = 0;
const newAddress = () => `198.51.100.${++addresses}`;
const newAccount = () => addPerson(app, 'viewer', PASSWORD);

/** `name=value` of the device cookie that a sign-in sets. */
const deviceOf = ({ headers }: Answer) =>
  headers
    .getSetCookie()
    .find((field) => field.startsWith('weir_device='))!
    .split(';')[0]!;
const attempt = (email: string, password: string, cookie = '', address = newAddress()) =>
  signIn(app, email, password, { 'x-forwarded-for': address, ...(cookie === '' ? {} : { cookie }) });

/** An attacker who fails on purpose. */
async function pause({ email }: TestPerson): Promise<void> {
  for (let i = 0; i < ACCOUNT_LIMIT.free; i++) expect((await attempt(email, 'not the password')).status).toBe(401);
  expect((await attempt(email, PASSWORD)).status).toBe(429);
}

test('a sign-in sets a device cookie that is HttpOnly and SameSite, and Secure for an https origin', async () => {
  const { email } = await newAccount();
  const value = /[\w-]{22}\.\d{10}\.[\w-]{43}/.source;
  const attributes = `Path=/; Max-Age=${DEVICE_SECONDS}; HttpOnly; SameSite=Lax`;
  expect((await attempt(email, PASSWORD)).headers.getSetCookie()[1]).toMatch(
    new RegExp(`^weir_device=${value}; ${attributes}$`),
  );
  const secure = await startTestApp({ PUBLIC_URL: 'https://weir.example' }, app);
  try {
    expect((await signIn(secure, email)).headers.getSetCookie()[1]).toMatch(
      new RegExp(`^__Host-weir_device=${value}; ${attributes}; Secure$`),
    );
  } finally {
    await secure.stop();
  }
});

test('the owner of a paused account can sign in with a device cookie, while the account stays paused for others', async () => {
  const person = await newAccount();
  const device = deviceOf(await attempt(person.email, PASSWORD));
  await pause(person);
  expect((await attempt(person.email, PASSWORD, device)).status).toBe(200);
  expect((await attempt(person.email, PASSWORD)).status).toBe(429);
});

test('the owner can sign in with a device cookie from a locked-out address', async () => {
  const [person, address] = [await newAccount(), newAddress()];
  const device = deviceOf(await attempt(person.email, PASSWORD));
  for (let i = 0; i < ADDRESS_LIMIT.max; i++) await attempt(`nobody-${i}@example.org`, 'x', '', address);
  expect((await attempt(person.email, PASSWORD, '', address)).status).toBe(429);
  expect((await attempt(person.email, PASSWORD, device, address)).status).toBe(200);
});

test('a device cookie has a separate counter, which pauses neither the account nor the address', async () => {
  const [person, address] = [await newAccount(), newAddress()];
  const device = deviceOf(await attempt(person.email, PASSWORD));
  for (let i = 0; i < ACCOUNT_LIMIT.free; i++)
    expect((await attempt(person.email, 'not the password', device, address)).status).toBe(401);
  const refused = await attempt(person.email, PASSWORD, device, address);
  expect([refused.status, refused.body.code]).toEqual([429, 'sign_in_limited']);
  expect((await attempt(person.email, PASSWORD, '', address)).status).toBe(200);
  const rows = await app.database.query({
    text: 'select from sign_in_failures where key in ($1, $2)',
    values: [accountKey(person.email), `ip:${address}`],
  });
  expect(rows).toEqual([]);
});

test.each([
  ["another user's", async () => deviceOf(await attempt((await newAccount()).email, PASSWORD))],
  ['one whose time was changed', async (own: string) => own.replace(/\.\d+\./, '.9999999999.')],
  ['one whose nonce was changed', async (own: string) => own.replace(/=[\w-]+/, `=${'A'.repeat(22)}`)],
  ['one that was cut', async (own: string) => own.slice(0, -1)],
  ['nonsense', async () => 'weir_device=..'],
])('a device cookie is invalid: %s', async (_what, make) => {
  const person = await newAccount();
  const cookie = await make(deviceOf(await attempt(person.email, PASSWORD)));
  await pause(person);
  expect((await attempt(person.email, PASSWORD, cookie)).status).toBe(429);
});

test('a device cookie is valid for a fixed number of days, and only under the current key', () => {
  const kept: string[] = [];
  const exchange = {
    setHeader: (_name: string, value: string) => kept.push(value),
    cookie: () => kept[0]!.split(';')[0]!.split('=')[1],
  } as unknown as Exchange;
  const cookies = new DeviceCookies('http://weir.example', Buffer.alloc(32, 1));
  cookies.keep(exchange, 'ada', 0);
  expect(cookies.counterKey(exchange, 'ada', DEVICE_SECONDS * 1000 - 1)).toMatch(/^device:[\w-]{22}$/);
  expect(cookies.counterKey(exchange, 'ada', DEVICE_SECONDS * 1000)).toBeNull();
  const rotated = new DeviceCookies('http://weir.example', Buffer.alloc(32, 2));
  expect(rotated.counterKey(exchange, 'ada', 1)).toBeNull();
});
