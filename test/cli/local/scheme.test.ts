/** Senders on the command line: the list, a webhook of a sender, and requests signed as that sender does. */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { presets } from '../../../server/model/signatures/presets.ts';
import { startTestApp } from '../../helpers/app.ts';
import { weir, weirJson } from '../../helpers/command.ts';
import { someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ SECRETS_KEY: someKey }));
const directory = temporaryDirectory();

async function file(name: string, text: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, text);
  return path;
}

/** Where the app listens; the printed URL holds its public address. */
const pathOf = ({ id }: { id: string }) => `${app.url}/in/${id}`;

describe('weir scheme', () => {
  test('list names every sender', async () => {
    const { items } = await weirJson(app, 'scheme', 'list');
    expect(items).toHaveLength(presets.length);
    const { code, out } = await weir(app, 'scheme', 'list');
    expect(code).toBe(0);
    expect(out).toMatch(/^NAME +SENDER +NEEDS +ALGORITHM\n/);
    expect(out).toMatch(/^discord +Discord +public key +ed25519$/m);
  });

  test('show explains how to set up a sender', async () => {
    const { out } = await weir(app, 'scheme', 'show', 'stripe');
    expect(out).toMatch(/^Stripe\nhttps:\/\/docs\.stripe\.com/);
    expect(out).toMatch(/^ {2}1\. In the Stripe Dashboard/m);
    expect(await weirJson(app, 'scheme', 'show', 'stripe')).toMatchObject({ name: 'stripe', key: 'secret' });
  });

  test('show of an unknown one fails with what to do', async () => {
    const { code, err } = await weir(app, 'scheme', 'show', 'nonsense');
    expect([code, err]).toEqual([1, expect.stringContaining('weir scheme list')]);
  });
});

describe('weir send --scheme', () => {
  test.each(['github', 'stripe', 'slack', 'standard-webhooks', 'linear', 'mailgun', 'basic'])(
    'signs as %s does, each request as a new event',
    async (scheme) => {
      const secret = scheme === 'basic' ? 'user:password' : 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
      const made = await weirJson(app, 'webhook', 'add', '--name', scheme, '--scheme', scheme, '--secret', secret);
      const args = ['send', pathOf(made), '--scheme', scheme, '--secret', secret, '--count', '3'];
      expect(await weirJson(app, ...args)).toMatchObject({ sent: 3, stored: 3 });
    },
  );

  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  const raw = (key: string | Buffer) => Buffer.from(key).subarray(-32);
  const seed = raw(privateKey.export({ format: 'der', type: 'pkcs8' }));
  const point = raw(publicKey.export({ format: 'der', type: 'spki' }));
  const whpk = `whpk_${point.toString('base64')}`;
  test.each([
    ['discord', publicKey.export({ format: 'pem', type: 'spki' }) as string, pem],
    ['standard-webhooks', whpk, pem],
    ['standard-webhooks', whpk, `whsk_${seed.toString('base64')}\n`],
    ['standard-webhooks', whpk, `whsk_${Buffer.concat([seed, point]).toString('base64')}`],
  ])('signs as %s with a private key', async (scheme, key, given) => {
    const path = await file('key.pem', given);
    const made = await weirJson(app, 'webhook', 'add', '--name', 'bot', '--scheme', scheme, '--public-key', key);
    const sent = await weirJson(app, 'send', pathOf(made), '--scheme', scheme, '--private-key', path);
    expect(sent).toMatchObject({ sent: 1, stored: 1 });
  });

  test.each([
    [['--scheme', 'nonsense', '--secret', 'x'], /No scheme has the name "nonsense"/],
    [['--scheme', 'discord', '--secret', 'x'], /needs --private-key/],
    [['--scheme', 'token', '--secret', 'x'], /needs --signature-header/],
    [['--scheme', 'discord', '--private-key', 'no-such-file'], /cannot be read/],
    [['--scheme', 'stripe'], /The secret is empty/],
  ])('%j is wrong usage', async (args, message) => {
    const { code, err } = await weir(app, 'send', `${app.url}/in/x`, ...args);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
  });
});

test('webhook add --scheme-file verifies by the definition in the file', async () => {
  const definition = { algorithm: 'hmac-sha1', header: 'x-own', encoding: 'base64' };
  const path = await file('scheme.json', JSON.stringify(definition));
  const args = ['webhook', 'add', '--name', 'own', '--scheme-file', path, '--secret', 'x'];
  expect(await weirJson(app, ...args)).toMatchObject({ signature_scheme: 'custom', scheme_definition: definition });
  const bad = await weir(app, 'webhook', 'add', '--name', 'own', '--scheme-file', await file('bad.json', '{'));
  expect([bad.code, bad.err]).toEqual([2, expect.stringContaining('cannot be read as JSON')]);
});

test('webhook add and update set the verify token and the tolerance', async () => {
  const meta = ['--scheme', 'meta', '--secret', 'x', '--verify-token', 'a token'];
  expect(await weirJson(app, 'webhook', 'add', '--name', 'a', ...meta)).toMatchObject({ has_verify_token: true });
  const stripe = ['--scheme', 'stripe', '--secret', 'x', '--tolerance-seconds', '0'];
  expect(await weirJson(app, 'webhook', 'add', '--name', 'b', ...stripe)).toMatchObject({ tolerance_seconds: 0 });
});
