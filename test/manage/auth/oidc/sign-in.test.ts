import { describe, expect, test, vi } from 'vitest';
import { PENDING_MAX } from '../../../../server/manage/auth/oidc/pending.ts';
import { fakeTimers } from '../../../helpers/clock.ts';
import { CALLBACK, PUBLIC_URL, startHostedApp } from '../../../helpers/hosted.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { problemShown, type WebClient } from '../../../helpers/web-client.ts';

const people = {
  olga: { email: 'olga@example.org', email_verified: true, name: 'Olga Operator', weir_role: 'operator' },
  mallory: { email: 'mallory@example.org', email_verified: true, weir_role: 'administrator' },
};

const hosted = shared(() => startHostedApp({ people }));

/** The account from the API. */
async function account(browser: WebClient): Promise<{ status: number; body: Record<string, unknown> }> {
  const { status, text } = await browser.open(`${PUBLIC_URL}/api/v1/account`);
  return { status, body: JSON.parse(text) };
}

/** Follows the sign-in from its first request to the callback URL, which it does not open. */
async function untilCallback(browser: WebClient, login = 'olga', change = (authorization: URL) => authorization) {
  const start = await browser.open(`${PUBLIC_URL}/oidc/start`);
  const authorization = change(new URL(start.location!));
  return hosted.provider.logIn(browser, authorization.href, login, CALLBACK);
}

/** The cookie of the only pending sign-in of the browser. */
function pendingCookie(browser: WebClient) {
  const [name] = browser.cookieNames().filter((name) => name.startsWith('weir_oidc_'));
  return name === undefined ? undefined : browser.cookie(name);
}

/** The same URL with one parameter changed; null removes it. */
function changed(address: string | URL, name: string, value: string | null): URL {
  const url = new URL(address);
  if (value === null) url.searchParams.delete(name);
  else url.searchParams.set(name, value);
  return url;
}

describe('a user signs in at the provider', () => {
  test('and is a user of Weir, with the role of the claim', async () => {
    const browser = hosted.browser();
    expect((await hosted.signIn('olga', browser)).status).toBe(303);
    expect(await account(browser)).toEqual({
      status: 200,
      body: expect.objectContaining({ email: 'olga@example.org', name: 'Olga Operator', role: 'operator' }),
    });
  });

  test('with state, nonce and PKCE, and only the hash of the verifier is sent', async () => {
    const { location } = await hosted.browser().open(`${PUBLIC_URL}/oidc/start`);
    const { origin, searchParams } = new URL(location!);
    expect(origin).toBe(hosted.provider.issuer);
    expect(Object.fromEntries(searchParams)).toEqual({
      client_id: 'weir',
      response_type: 'code',
      redirect_uri: CALLBACK,
      scope: 'openid profile email',
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    });
  });

  test('and has HttpOnly and SameSite cookies', async () => {
    const browser = hosted.browser();
    const callback = await untilCallback(browser);
    expect(pendingCookie(browser)!.field).toMatch(/; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/);
    await browser.open(callback);
    expect(pendingCookie(browser)).toBeUndefined();
    expect(browser.cookie('weir_session')!.field).toMatch(/; Path=\/; Max-Age=3600; HttpOnly; SameSite=Lax$/);
  });

  test('the cookie of the sign-in reveals nothing', async () => {
    const browser = hosted.browser();
    const { location } = await browser.open(`${PUBLIC_URL}/oidc/start?return_to=/a-path-to-look-for`);
    const opened = Buffer.from(pendingCookie(browser)!.value, 'base64url').toString('latin1');
    expect(opened).not.toContain('a-path-to-look-for');
    expect(opened).not.toContain(new URL(location!).searchParams.get('state'));
  });

  test('over https the cookies have the prefix __Host-', async () => {
    const publicUrl = 'https://weir.example';
    const secure = await ofTest(startHostedApp({ people }, { PUBLIC_URL: publicUrl }));
    const answer = await fetch(`${secure.app.url}/oidc/start`, { redirect: 'manual' });
    expect(answer.headers.get('set-cookie')).toMatch(
      /^__Host-weir_oidc_[\w-]{16}=[\w-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
    );
    expect(new URL(answer.headers.get('location')!).searchParams.get('redirect_uri')).toBe(
      `${publicUrl}/oidc/callback`,
    );
  });
});

type Prepare = (browser: WebClient) => Promise<string>;
/** A callback with one parameter changed; null removes it. */
const calledWith = (name: string, value: string | null): Prepare => {
  return async (browser) => changed(await untilCallback(browser), name, value).href;
};
/** A callback after an authorization request with one parameter changed. */
const askedWith = (name: string, value: string | null): Prepare => {
  return (browser) => untilCallback(browser, 'olga', (url) => changed(url, name, value));
};
const ofAnother = async (name: string) =>
  new URL(await untilCallback(hosted.browser(), 'mallory')).searchParams.get(name)!;

const expired: [what: string, prepare: Prepare][] = [
  ['without a sign-in', async () => `${CALLBACK}?code=c&state=s`],
  ['with nothing at all', async () => CALLBACK],
  ['without the state', calledWith('state', null)],
  ['with the state of another sign-in', async (browser) => calledWith('state', await ofAnother('state'))(browser)],
  ['of a sign-in of another user', () => untilCallback(hosted.browser(), 'mallory')],
  [
    'with two states',
    async (browser) => {
      const callback = await untilCallback(browser);
      return `${callback}&state=${new URL(callback).searchParams.get('state')}`;
    },
  ],
  [
    'with a cookie that was changed',
    async (browser) => {
      const callback = await untilCallback(browser);
      const { name, value } = pendingCookie(browser)!;
      browser.setCookie(PUBLIC_URL, name, `${value.slice(0, 60)}${value[60] === 'A' ? 'B' : 'A'}${value.slice(61)}`);
      return callback;
    },
  ],
];
const refused: typeof expired = [
  ['without the code', calledWith('code', null)],
  ['with a made-up code', calledWith('code', 'made-up')],
  ['with a code of a sign-in of another user', async (browser) => calledWith('code', await ofAnother('code'))(browser)],
  ['from another issuer', calledWith('iss', 'https://other.example')],
  ['without the issuer', calledWith('iss', null)],
  ['whose ID token has another nonce', askedWith('nonce', 'another')],
  ['whose ID token has no nonce', askedWith('nonce', null)],
  [
    'of a code whose PKCE challenge is for another verifier',
    askedWith('code_challenge', 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'),
  ],
  [
    'of a code that was got without PKCE',
    (browser) => {
      const without = (url: URL) => changed(changed(url, 'code_challenge', null), 'code_challenge_method', null);
      return untilCallback(browser, 'olga', without);
    },
  ],
];

describe('a callback is refused', () => {
  test.each([
    ...expired.map((row) => [...row, 400, 'sign_in_expired'] as const),
    ...refused.map((row) => [...row, 403, 'identity_refused'] as const),
    [
      'of a user whom the provider refused',
      (browser: WebClient) => untilCallback(browser, ''),
      403,
      'sign_in_denied',
    ] as const,
  ])('%s', async (_, prepare, status, code) => {
    const browser = hosted.browser();
    const page = await browser.open(await prepare(browser));
    expect(problemShown(page)).toEqual([status, code]);
    expect(browser.cookie('weir_session')).toBeUndefined();
    expect((await account(browser)).status).not.toBe(200);
  });

  test('when repeated: its cookie is deleted and the code is used', async () => {
    const browser = hosted.browser();
    const callback = await untilCallback(browser);
    const { name, value } = pendingCookie(browser)!;
    expect((await browser.open(callback)).status).toBe(303);
    expect(pendingCookie(browser)).toBeUndefined();
    browser.setCookie(PUBLIC_URL, 'weir_session', null);
    expect(problemShown(await browser.open(callback))).toEqual([400, 'sign_in_expired']);
    const thief = hosted.browser();
    thief.setCookie(PUBLIC_URL, name, value);
    expect(problemShown(await thief.open(callback))).toEqual([403, 'identity_refused']);
  });

  test('after ten minutes, and not a second earlier', async () => {
    fakeTimers({ toFake: ['Date'] });
    const beganMs = Date.now();
    const [inTime, late] = [hosted.browser(), hosted.browser()];
    // The code of the provider expires earlier: with a valid cookie the code is refused.
    const codes = [await untilCallback(inTime), await untilCallback(late)];
    vi.setSystemTime(beganMs + 599_000);
    expect(problemShown(await inTime.open(codes[0]!))[1]).toBe('identity_refused');
    vi.setSystemTime(beganMs + 602_000);
    expect(problemShown(await late.open(codes[1]!))[1]).toBe('sign_in_expired');
  });

  test('with the reason in the log, without the code', async () => {
    const browser = hosted.browser();
    const callback = changed(await untilCallback(browser), 'code', 'a-code-to-look-for');
    const page = await browser.open(callback.href);
    const line = hosted.app.logLines.find((each) => each.includes(page.headers.get('x-request-id')!))!;
    expect(JSON.parse(line)).toMatchObject({
      event: 'identity_refused',
      reason: expect.stringContaining('invalid_grant'),
    });
    expect(hosted.app.logLines.join('')).not.toContain('a-code-to-look-for');
  });
});

describe('two tabs of a browser', () => {
  test('sign in at once, each with its own page', async () => {
    const browser = hosted.browser();
    const begin = async (page: string) => {
      const { location } = await browser.open(`${PUBLIC_URL}/oidc/start?return_to=${page}`);
      return location!;
    };
    const [one, other] = [await begin('/events'), await begin('/agents')];
    const callbacks = [one, other].map((address) => hosted.provider.logIn(browser, address, 'olga', CALLBACK));
    for (const [index, page] of ['/events', '/agents'].entries())
      expect((await browser.open(await callbacks[index]!)).location).toBe(`${PUBLIC_URL}${page}`);
    expect(pendingCookie(browser)).toBeUndefined();
  });

  test('one of which has signed in: the callback of the other goes on to the pages, also when it has expired', async () => {
    const browser = hosted.browser();
    const callback = await untilCallback(browser);
    await hosted.signIn('olga', browser);
    const { name } = pendingCookie(browser)!;
    browser.setCookie(PUBLIC_URL, name, null);
    expect((await browser.open(callback)).location).toBe(`${PUBLIC_URL}/`);
  });

  test('and many more: the oldest pending sign-ins are forgotten', async () => {
    const browser = hosted.browser();
    const first = await untilCallback(browser);
    for (let tab = 1; tab <= PENDING_MAX; tab++) await browser.open(`${PUBLIC_URL}/oidc/start`);
    expect(browser.cookieNames().filter((name) => name.startsWith('weir_oidc_'))).toHaveLength(PENDING_MAX);
    expect(problemShown(await browser.open(first))).toEqual([400, 'sign_in_expired']);
  });
});

test('the provider gets no request for a callback that was not started in this browser', async () => {
  await hosted.signIn('olga');
  const before = hosted.provider.requests.length;
  for (let i = 0; i < 10; i++) await hosted.browser().open(`${CALLBACK}?code=c&state=s`);
  expect(hosted.provider.requests).toHaveLength(before);
});

test.each([
  ['/events?webhook_id=1&q=%C3%A4#top', `${PUBLIC_URL}/events?webhook_id=1&q=%C3%A4#top`],
  ['/', `${PUBLIC_URL}/`],
])('the page after a sign-in: %s is a page of Weir', async (returnTo, address) => {
  const browser = hosted.browser();
  const start = await browser.open(`${PUBLIC_URL}/oidc/start?return_to=${encodeURIComponent(returnTo)}`);
  const callback = await hosted.provider.logIn(browser, start.location!, 'olga', CALLBACK);
  expect((await browser.open(callback)).headers.get('location')).toBe(address);
});
