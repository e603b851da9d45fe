/** Limits on password attempts, of a browser that signed in before too. Each test uses its own addresses and accounts. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Exchange } from '../../../server/base/http/exchange.ts';
import { DEVICE_SECONDS, DeviceCookies } from '../../../server/manage/auth/device-cookies.ts';
import { HASHING_WORK_MAX } from '../../../server/manage/auth/password-hash.ts';
import { ACCOUNT_LIMIT, ADDRESS_LIMIT, accountKey } from '../../../server/manage/auth/throttle.ts';
import { problems } from '../../../server/model/errors.ts';
import { startTestApp } from '../../helpers/app.ts';
import { type Answer, addPerson, givePassword, PASSWORD, signIn, type TestPerson } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ TRUSTED_PROXIES: '127.0.0.1' }));
/** Another process on the same database. */
const other = shared(() => startTestApp({ TRUSTED_PROXIES: '127.0.0.1' }, app));

let addresses = 0;
const newAddress = () => `198.18.${++addresses >> 8}.${addresses & 255}`;
const newEmail = () => `${randomUUID()}@example.org`;

const newAccount = () => addPerson(app, 'viewer', PASSWORD);

/** Tries `password` from an address, by default a new one each time. */
function attempt(email: string, password: string, { address = newAddress(), at = app, cookie = '' } = {}) {
  return signIn(at, email, password, { 'x-forwarded-for': address, ...(cookie === '' ? {} : { cookie }) });
}

async function fail(count: number, email: string, address?: string): Promise<void> {
  for (let i = 0; i < count; i++) {
    const { status } = await attempt(email, 'not the password', address === undefined ? {} : { address });
    expect(status).toBe(401);
  }
}

/** Simulates that more seconds have passed since the last failure. */
async function pass(key: string, seconds: number): Promise<void> {
  const text =
    'update sign_in_failures set last_failure_at = last_failure_at - make_interval(secs => $2) where key = $1';
  await app.sql(text, key, seconds);
}

describe('an account', () => {
  test.each([
    ['that exists', async () => (await newAccount()).email],
    ['that does not', async () => newEmail()],
  ])('%s has a number of free failures; then it is paused, for the correct password too', async (_which, make) => {
    const email = await make();
    await fail(ACCOUNT_LIMIT.free, email);
    for (const password of [PASSWORD, 'not the password']) {
      const { status, headers, body } = await attempt(email, password);
      const { request_id, ...rest } = body;
      expect([status, rest]).toEqual([
        429,
        {
          type: 'about:blank',
          title: 'Too Many Requests',
          status: 429,
          detail: problems.sign_in_limited.detail,
          code: 'sign_in_limited',
        },
      ]);
      const wait = Number(headers.get('retry-after'));
      expect(wait).toBeGreaterThan(ACCOUNT_LIMIT.firstSeconds - 10);
      expect(wait).toBeLessThanOrEqual(ACCOUNT_LIMIT.firstSeconds);
    }
  });

  test.each([
    [5, 30],
    [6, 60],
    [7, 120],
    [8, 240],
    [9, 480],
    [10, 900],
    [2_000_000_000, 900],
  ])('with %i consecutive failures is paused for %i s', async (failures, seconds) => {
    const { email } = await newAccount();
    const key = accountKey(email);
    await app.sql('insert into sign_in_failures (key, failures) values ($1, $2)', key, failures);
    await pass(key, seconds - 10);
    const { status, headers } = await attempt(email, PASSWORD);
    expect(status).toBe(429);
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(10);
    await pass(key, 10);
    expect((await attempt(email, PASSWORD)).status).toBe(200);
  });

  test('has no failures after a success', async () => {
    const { email } = await newAccount();
    for (let round = 0; round < 2; round++) {
      await fail(ACCOUNT_LIMIT.free - 1, email);
      expect((await attempt(email, PASSWORD)).status).toBe(200);
    }
  });

  test('is not bypassed by concurrent attempts, another case, or another process', async () => {
    const { email } = await newAccount();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        attempt(i % 3 === 0 ? email.toUpperCase() : email, 'not the password', { at: i % 2 === 0 ? app : other }),
      ),
    );
    const count = (status: number) => answers.filter((answer) => answer.status === status).length;
    expect([count(401), count(429)]).toEqual([ACCOUNT_LIMIT.free, 20 - ACCOUNT_LIMIT.free]);
  });

  test('is released when an administrator sets its password', async () => {
    const person = await newAccount();
    await fail(ACCOUNT_LIMIT.free, person.email);
    await givePassword(app, person, `${PASSWORD} anew`);
    expect((await attempt(person.email, `${PASSWORD} anew`)).status).toBe(200);
  });

  test('with an unknown email is not stored in the table of failures', async () => {
    const email = newEmail();
    await fail(1, email);
    const rows = await app.sql(`select from sign_in_failures where key like '%' || $1 || '%'`, email);
    expect(rows).toEqual([]);
  });
});

describe('a client address', () => {
  test('has a number of free failures over all accounts; then one each interval', async () => {
    const address = newAddress();
    for (let i = 0; i < ADDRESS_LIMIT.free; i++) await fail(1, newEmail(), address);
    const { email } = await newAccount();
    const refused = await attempt(email, PASSWORD, { address });
    expect([refused.status, refused.body.code]).toEqual([429, 'sign_in_limited']);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(ADDRESS_LIMIT.secondsEach);
    expect((await attempt(email, PASSWORD)).status).toBe(200);

    await pass(`ip:${address}`, ADDRESS_LIMIT.secondsEach);
    await fail(1, newEmail(), address);
    expect((await attempt(email, PASSWORD, { address })).status).toBe(429);
  });

  test('is not charged for successful sign-ins', async () => {
    const address = newAddress();
    const { email } = await newAccount();
    for (let i = 0; i <= ADDRESS_LIMIT.free; i++)
      expect((await attempt(email, PASSWORD, { address })).status).toBe(200);
    const rows = await app.sql('select from sign_in_failures where key = $1', `ip:${address}`);
    expect(rows).toEqual([]);
  });

  test('is not charged for attempts on a paused account', async () => {
    const [address, { email }] = [newAddress(), await newAccount()];
    await fail(ACCOUNT_LIMIT.free, email);
    const tries = Array.from({ length: ADDRESS_LIMIT.free * 2 }, () => attempt(email, 'not the password', { address }));
    expect(new Set((await Promise.all(tries)).map(({ status }) => status))).toEqual(new Set([429]));
    const colleague = await newAccount();
    expect((await attempt(colleague.email, PASSWORD, { address })).status).toBe(200);
  });

  test('that is locked out pauses no account', async () => {
    const [address, { email }] = [newAddress(), await newAccount()];
    for (let i = 0; i < ADDRESS_LIMIT.free; i++) await fail(1, newEmail(), address);
    for (let i = 0; i < ACCOUNT_LIMIT.free * 2; i++)
      expect((await attempt(email, 'not the password', { address })).status).toBe(429);
    await fail(ACCOUNT_LIMIT.free, email);
  });

  test('recovers while users sign in from it', async () => {
    const [address, { email }] = [newAddress(), await newAccount()];
    const key = `ip:${address}`;
    for (let i = 0; i < ADDRESS_LIMIT.free; i++) await fail(1, newEmail(), address);
    await pass(key, ADDRESS_LIMIT.secondsEach);
    // Each success precedes the decay of another failure.
    for (let i = 0; i < 4; i++) {
      expect((await attempt(email, PASSWORD, { address })).status).toBe(200);
      await pass(key, ADDRESS_LIMIT.secondsEach / 2);
    }
    for (let i = 0; i < 3; i++) await fail(1, newEmail(), address);
    expect((await attempt(email, PASSWORD, { address })).status).toBe(429);
  });

  test('of IPv6 is its /64', async () => {
    for (let i = 0; i < ADDRESS_LIMIT.free; i++) await fail(1, newEmail(), `2001:db8:0:1::${i + 1}`);
    expect((await attempt(newEmail(), PASSWORD, { address: '2001:db8:0:1:ffff::1' })).status).toBe(429);
    expect((await attempt(newEmail(), PASSWORD, { address: '2001:db8:0:2::1' })).status).toBe(401);
  });
});

test('a flood is answered 503 beyond a limit, and normal service follows', async () => {
  const flood = await Promise.all(Array.from({ length: HASHING_WORK_MAX * 3 }, () => attempt(newEmail(), PASSWORD)));
  const busy = flood.filter(({ status }) => status === 503);
  expect(busy.length).toBeGreaterThan(0);
  expect(new Set(flood.map(({ status }) => status))).toEqual(new Set([401, 503]));
  expect(busy[0]!.body.code).toBe('sign_in_busy');
  expect(busy[0]!.headers.get('retry-after')).toBe('1');
  expect(await app.metric('weir_password_requests')).toBe(0);
  expect((await attempt((await newAccount()).email, PASSWORD)).status).toBe(200);
});

/** `name=value` of the device cookie that a sign-in sets. */
const deviceOf = ({ headers }: Answer) =>
  headers
    .getSetCookie()
    .find((field) => field.startsWith('weir_device='))!
    .split(';')[0]!;
/** An attacker who fails on purpose. */
async function pause({ email }: TestPerson): Promise<void> {
  await fail(ACCOUNT_LIMIT.free, email);
  expect((await attempt(email, PASSWORD)).status).toBe(429);
}

test('a sign-in sets a device cookie that is HttpOnly and SameSite, and Secure for an https origin', async () => {
  const { email } = await newAccount();
  const value = /[\w-]{22}\.\d{10}\.[\w-]{43}/.source;
  const attributes = `Path=/; Max-Age=${DEVICE_SECONDS}; HttpOnly; SameSite=Lax`;
  expect((await attempt(email, PASSWORD)).headers.getSetCookie()[1]).toMatch(
    new RegExp(`^weir_device=${value}; ${attributes}$`),
  );
  const secure = await ofTest(startTestApp({ PUBLIC_URL: 'https://weir.example' }, app));
  expect((await signIn(secure, email)).headers.getSetCookie()[1]).toMatch(
    new RegExp(`^__Host-weir_device=${value}; ${attributes}; Secure$`),
  );
});

test('the owner of a paused account can sign in with a device cookie, while the account stays paused for others', async () => {
  const person = await newAccount();
  const device = deviceOf(await attempt(person.email, PASSWORD));
  await pause(person);
  expect((await attempt(person.email, PASSWORD, { cookie: device })).status).toBe(200);
  expect((await attempt(person.email, PASSWORD)).status).toBe(429);
});

test('the owner can sign in with a device cookie from a locked-out address', async () => {
  const [person, address] = [await newAccount(), newAddress()];
  const device = deviceOf(await attempt(person.email, PASSWORD));
  for (let i = 0; i < ADDRESS_LIMIT.free; i++) await fail(1, newEmail(), address);
  expect((await attempt(person.email, PASSWORD, { address })).status).toBe(429);
  expect((await attempt(person.email, PASSWORD, { cookie: device, address })).status).toBe(200);
});

test('a device cookie has a separate counter, which pauses neither the account nor the address', async () => {
  const [person, address] = [await newAccount(), newAddress()];
  const device = deviceOf(await attempt(person.email, PASSWORD));
  for (let i = 0; i < ACCOUNT_LIMIT.free; i++)
    expect((await attempt(person.email, 'not the password', { cookie: device, address })).status).toBe(401);
  const refused = await attempt(person.email, PASSWORD, { cookie: device, address });
  expect([refused.status, refused.body.code]).toEqual([429, 'sign_in_limited']);
  expect((await attempt(person.email, PASSWORD, { address })).status).toBe(200);
  const rows = await app.sql(
    'select from sign_in_failures where key in ($1, $2)',
    accountKey(person.email),
    `ip:${address}`,
  );
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
  expect((await attempt(person.email, PASSWORD, { cookie })).status).toBe(429);
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
