/** Data signed with SECRETS_KEY_PREVIOUS is accepted only for a short time after the replacement. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { signSession } from '../../../server/manage/auth/agent-session.ts';
import { recordKeys } from '../../../server/store/secrets/keys.ts';
import { deriveKey, fingerprintOf, seal } from '../../../server/store/secrets/seal.ts';
import { addAgent, request, startAgentApp } from '../../helpers/agents.ts';
import type { TestApp } from '../../helpers/app.ts';
import { CALLBACK, PUBLIC_URL, startHostedApp } from '../../helpers/hosted.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { ofEach, shared } from '../../helpers/shared.ts';
import { problemShown } from '../../helpers/web-client.ts';

const [current, previous, third] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [
  string,
  string,
  string,
];
const keys = { SECRETS_KEY: current, SECRETS_KEY_PREVIOUS: previous };
/** What the database knows of the previous key. @param seconds since it was replaced; null: it is in use */
async function setReplaced({ sql }: TestApp, seconds: number | null | 'unknown'): Promise<void> {
  await sql('delete from secrets_keys');
  const text = 'insert into secrets_keys (fingerprint, replaced_at) values ($1, now() - make_interval(secs => $2))';
  if (seconds !== 'unknown') await sql(text, fingerprintOf(previous), seconds);
}

describe('an agent session', () => {
  const app = shared(() => startAgentApp(keys));
  const agent = shared(() => addAgent(app));

  const signed = (secretsKey: string, seconds = 600) =>
    signSession(
      { agentId: agent.id, generation: 1, expiresAtMs: Date.now() + seconds * 1000 },
      deriveKey(secretsKey, 'agent-sessions'),
    );
  const statusOf = async (token: string) => (await request(`${app.url}/api/v1/agent/me`, token)).status;

  test.each([
    ['was replaced a moment ago', 0, 200],
    ['was replaced almost 15 minutes ago', 880, 200],
    ['was replaced 15 minutes ago', 900, 401],
    ['was never in use', 'unknown', 401],
    ['is in use at another machine', null, 200],
  ] as const)('of a previous key that %s', async (_when, seconds, status) => {
    await setReplaced(app, seconds);
    expect([await statusOf(signed(previous)), await statusOf(signed(current))]).toEqual([status, 200]);
  });

  test('of the previous key is answered 503 while the time of the replacement is unknown', async () => {
    await setReplaced(app, 0);
    await app.cutOff();
    onTestFinished(() => app.restore());
    expect(await statusOf(signed(previous))).toBe(503);
  });
});

describe('a hosted sign-in in progress', () => {
  const hosted = shared(() => startHostedApp({}, keys));

  /** Code of the response to a callback whose cookie this key signed. The provider does not know the code, so a valid cookie leads to its refusal. */
  async function callBack(secretsKey: string, seconds = 300): Promise<string> {
    const { issuer, clientId } = hosted.provider;
    const pending = { state: 's', nonce: 'n', verifier: 'v'.repeat(43), returnTo: '/' };
    const text = JSON.stringify({ ...pending, untilMs: Date.now() + seconds * 1000 });
    const key = deriveKey(secretsKey, 'oidc-state');
    const value = seal(Buffer.from(text), key, JSON.stringify([issuer, clientId])).toString('base64url');
    const browser = hosted.browser();
    browser.setCookie(PUBLIC_URL, 'weir_oidc_s', value);
    return problemShown(await browser.open(`${CALLBACK}?code=c&state=s`))[1];
  }

  test.each([
    ['was replaced a moment ago', 0, 'identity_refused'],
    ['was replaced almost 10 minutes ago', 580, 'identity_refused'],
    ['was replaced 10 minutes ago', 600, 'sign_in_expired'],
    ['was never in use', 'unknown', 'sign_in_expired'],
  ] as const)('with a previous key that %s', async (_when, seconds, code) => {
    await setReplaced(hosted.app, seconds);
    expect([await callBack(previous), await callBack(current)]).toEqual([code, 'identity_refused']);
  });

  test('with a longer lifetime than Weir allows is refused under both keys', async () => {
    await setReplaced(hosted.app, 0);
    expect([await callBack(previous, 3_600), await callBack(current, 3_600)]).toEqual([
      'sign_in_expired',
      'sign_in_expired',
    ]);
  });
});

describe('the time of a replacement', () => {
  const fresh = ofEach(freshDatabase);

  /** Recorded like by a start or by `keys rotate`. Whether it replaced another key. */
  const record = (now: string, before: string | null, again = false) =>
    fresh.database.transaction(async (query) => {
      const previous = before === null ? null : fingerprintOf(before);
      return (await recordKeys(query, fingerprintOf(now), previous, { again })).length > 0;
    });
  const replacedAt = async (key: string) => {
    const text = 'select replaced_at::text as at from secrets_keys where fingerprint = $1';
    return (await fresh.sql<{ at: string | null }>(text, fingerprintOf(key)))[0]?.at;
  };

  test('is the first start with a new key, and no later start changes it', async () => {
    expect(await record(previous, null)).toBe(false);
    expect(await replacedAt(previous)).toBeNull();
    expect(await record(current, previous)).toBe(true);
    const at = await replacedAt(previous);
    expect(at).toMatch(/^\d{4}-/);
    expect(await record(current, previous)).toBe(false);
    // A machine with the old key starts again.
    expect(await record(previous, null)).toBe(false);
    expect(await record(current, previous, true)).toBe(false);
    expect([await replacedAt(previous), await replacedAt(current)]).toEqual([at, null]);
  });

  test('is the first start with this release, if no key was recorded', async () => {
    expect(await record(current, previous)).toBe(false);
    expect([typeof (await replacedAt(previous)), await replacedAt(current)]).toEqual(['string', null]);
  });

  test('is not set for a key that was announced before its use', async () => {
    await record(previous, null);
    // Every machine gets the new key before the first one uses it.
    expect(await record(previous, current)).toBe(false);
    expect(await replacedAt(current)).toBeUndefined();
  });

  test('is correct although the new key was announced at the first start with this release', async () => {
    await record(previous, current);
    expect(await record(current, previous)).toBe(true);
    expect([typeof (await replacedAt(previous)), await replacedAt(current)]).toEqual(['string', null]);
  });

  test('is removed when an earlier key is used again', async () => {
    await record(previous, null);
    await record(current, previous);
    expect(await record(previous, current, true)).toBe(true);
    expect([await replacedAt(previous), typeof (await replacedAt(current))]).toEqual([null, 'string']);
    expect(await record(third, previous)).toBe(true);
  });

  test('does not reveal the keys', () => {
    const fingerprint = fingerprintOf(current);
    expect(fingerprint).toHaveLength(16);
    expect(fingerprintOf(previous).equals(fingerprint)).toBe(false);
    for (const purpose of ['webhook-secrets', 'agent-sessions'] as const)
      expect(deriveKey(current, purpose).includes(fingerprint)).toBe(false);
  });
});
