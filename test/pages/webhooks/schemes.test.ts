/** The form of a webhook selects a sender, and its page shows how to set that sender up. */
import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { presets } from '../../../server/model/signatures/presets.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startPagesApp({ RATE_LIMIT_INGEST_MAX: 60 }));
const operator = shared(() => addPerson(app, 'operator'));

const open = (path: string, fields?: Record<string, string>) =>
  fields === undefined ? operator.browse('GET', path) : operator.submit(path, fields);

const given = { secret_choice: 'given', secret: 'whsec_a good secret' };
const find = async (name: string) => {
  const { body } = await operator.api('GET', `/api/v1/webhooks?q=${name}`);
  return body.items[0];
};

test.each(['Stripe', 'stripe', 'STRI'])('the picker finds a sender by %s', async (q) => {
  const { text } = await open(`/webhooks/new?q=${q}`);
  expect(text).toContain('<a class="card tile" href="/webhooks/new?scheme=stripe">Stripe</a>');
  expect(text).not.toContain('scheme=github');
});

test('the picker has twelve tiles, and a link to every other sender', async () => {
  const { text } = await open('/webhooks/new');
  expect(text.match(/class="card tile"/g)).toHaveLength(12);
  for (const { name } of presets) expect(text).toContain(`href="/webhooks/new?scheme=${name}"`);
});

test('the form of a sender has only the fields that it needs', async () => {
  const fields = /name="(signature_header|public_key|verify_token|tolerance_seconds|scheme_definition|secret)"/g;
  const fieldsOf = async (scheme: string) => {
    const { text } = await open(`/webhooks/new?scheme=${scheme}`);
    return [...text.matchAll(fields)].map(([, name]) => name);
  };
  expect(await fieldsOf('Stripe')).toEqual(['secret', 'tolerance_seconds']);
  expect(await fieldsOf('discord')).toEqual(['public_key', 'tolerance_seconds']);
  expect(await fieldsOf('meta')).toEqual(['verify_token', 'secret']);
  expect(await fieldsOf('github')).toEqual(['secret']);
  expect(await fieldsOf('custom')).toEqual(['scheme_definition', 'secret', 'public_key', 'tolerance_seconds']);
});

test.each([
  ['github', 'generate'],
  ['stripe', 'given'],
])('the form of %s preselects: %s', async (scheme, choice) => {
  expect((await open(`/webhooks/new?scheme=${scheme}`)).text).toContain(`value="${choice}" checked`);
});

test('only the form of the scheme that may have no secret offers none', async () => {
  const offers = async (scheme: string) =>
    (await open(`/webhooks/new?scheme=${scheme}`)).text.includes('name="secret_choice" value="none"');
  expect([await offers('sha256'), await offers('token'), await offers('custom')]).toEqual([true, false, false]);
});

test('without the secret of the sender, the page of the webhook asks for it and shows none', async () => {
  const fields = { name: 'waits', signature_scheme: 'Stripe', secret_choice: 'given', secret: '' };
  const { status, text } = await open('/webhooks/new', fields);
  expect(status).toBe(200);
  expect(text).not.toContain('class="once"');
  expect(text).toContain('Secret that Stripe shows');
  expect(text).toContain('Give the sender this URL. The sender then shows its secret: paste it below.');
  const webhook = await find('waits');
  expect(webhook).toMatchObject({ signature_scheme: 'stripe', has_secret: true });

  const pasted = await open(`/webhooks/${webhook.id}/rotate`, {
    first: 'true',
    confirmed: 'yes',
    secret: 'whsec_a good secret',
  });
  expect(pasted.status).toBe(303);
  const { text: page } = await open(pasted.headers.get('location')!);
  expect(page).toContain('The new secret is active.');
  expect(page).toContain('Set up Stripe');
});

test('a rotation generates a secret only for a sender that takes one', async () => {
  const idOf = async (signature_scheme: string, secret: string) =>
    (await operator.api('POST', '/api/v1/webhooks', { name: signature_scheme, signature_scheme, secret })).body.id;
  const slack = `/webhooks/${await idOf('slack', 'a signing secret')}`;
  const { text } = await open(`${slack}/secret`);
  expect(text).toContain('New secret that Slack shows');
  expect(text).not.toContain('a secret is generated');
  const refused = await open(`${slack}/rotate`, { confirmed: 'yes', secret: '', overlap_seconds: '0' });
  expect([refused.status, refused.text.includes('Paste the secret that Slack shows.')]).toEqual([422, true]);
  expect((await open(`/webhooks/${await idOf('github', 'another')}/secret`)).text).toContain('a secret is generated');
});

test('the page of a webhook shows the steps of its sender, its URL to copy, and a command to try it', async () => {
  const created = await open('/webhooks/new', { name: 'pay', signature_scheme: 'stripe', ...given });
  expect(created.status).toBe(200);
  expect(created.text).toContain('Set up Stripe');
  expect(created.text).toContain('Signing secret (whsec_');
  expect(created.text).not.toContain('a good secret');
  const { url } = await find('pay');
  expect(created.text).toContain(`data-copy="${url}"`);
  expect(created.text).toMatch(new RegExp(`npx http://\\S+\\.tgz send ${url} --scheme stripe`));
});

test('a generated secret comes with a link to where the secret of the sender is pasted', async () => {
  const fields = { name: 'later', signature_scheme: 'svix', secret_choice: 'generate' };
  const { text } = await open('/webhooks/new', fields);
  expect(text).toMatch(/<a href="\/webhooks\/[0-9a-f-]{36}\/secret" target="_self" data-stored>paste it here<\/a>/);
  const settings = await open(`/webhooks/${(await find('later')).id}/settings`);
  expect(settings.text).toContain('As Svix signs (scheme svix)');
  expect(settings.text).toContain('Not stored again when svix-id repeats');
});

test.each(['discord', 'standard-webhooks'])(
  'a sender with a public key (%s) needs no secret',
  async (signature_scheme) => {
    const { publicKey } = generateKeyPairSync('ed25519');
    const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
    const public_key = signature_scheme === 'discord' ? raw.toString('hex') : `whpk_${raw.toString('base64')}`;
    const fields = { name: `bot of ${signature_scheme}`, signature_scheme, secret_choice: 'generate', public_key };
    const created = await open('/webhooks/new', fields);
    expect(created.status).toBe(200);
    expect(created.text).toContain(`--scheme ${signature_scheme} --private-key FILE`);
    expect(await find(fields.name)).toMatchObject({ signature_scheme, has_secret: false });
  },
);

test('a limit is suggested for a sender that does not repeat requests; one click sets it', async () => {
  expect((await open('/webhooks/new?scheme=stripe')).text).not.toContain('suggested_limit');
  expect((await open('/webhooks/new?scheme=sha256')).text).not.toContain('suggested_limit');
  const { text } = await open('/webhooks/new?scheme=github');
  expect(text).toContain('Accept 1,000 requests from one address in 60 seconds instead of 60');
  expect(text).toMatch(
    /GitHub does not repeat refused requests; it sends them again on request\s*\(<a href="https:\/\/docs\.github\.com\/[^"]+" rel="noreferrer">docs\.github\.com<\/a>\)/,
  );
  const fields = { signature_scheme: 'github', secret_choice: 'generate', rate_limit_max: '' };
  const limitOf = async (name: string, more: Record<string, string>) => {
    expect((await open('/webhooks/new', { ...fields, name, ...more })).status).toBe(200);
    return (await find(name)).rate_limit_max;
  };
  expect(await limitOf('plain', {})).toBeNull();
  expect(await limitOf('clicked', { suggested_limit: '1000' })).toBe(1_000);
  expect(await limitOf('typed', { suggested_limit: '1000', rate_limit_max: '90' })).toBe(90);
});

test('a definition is kept through the form, and text that is not a definition is refused', async () => {
  const scheme_definition = '{"header":"x-own","algorithm":"hmac-sha256"}';
  const fields = { name: 'own', signature_scheme: 'custom', scheme_definition, ...given };
  const errorOf = async (text: string) => {
    const { text: page } = await open('/webhooks/new', { ...fields, scheme_definition: text });
    return /id="e-scheme_definition">([^<]*)</.exec(page)?.[1];
  };
  expect(await errorOf('{')).toBe('This is not JSON: unexpected end of input.');
  expect(await errorOf('')).toBe('Give the definition of the custom scheme.');
  expect(await errorOf('[]')).toBe('Give an object.');
  expect(await errorOf('{"algorithm":"hmac-sha256","hedaer":"x"}')).toBe(
    'Member header: This is required. Member hedaer: This field is unknown.',
  );
  expect((await open('/webhooks/new?scheme=custom')).text).toContain('href="/docs/senders#signature-schemes"');
  expect((await open('/webhooks/new', fields)).status).toBe(200);
  const { id } = await find('own');
  const form = await open(`/webhooks/${id}/edit`);
  expect(form.text.replaceAll('&quot;', '"')).toContain('"algorithm":"hmac-sha256"');
  expect((await open(`/webhooks/${id}/edit`, { ...fields, name: 'own renamed' })).status).toBe(303);
  expect((await find('own')).scheme_definition).toEqual(JSON.parse(scheme_definition));
});

test('a change after which signatures are not checked is made when its check box is checked', async () => {
  const raw = generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  const fields = { name: 'keyed bot', signature_scheme: 'discord', public_key: raw.toString('hex') };
  await open('/webhooks/new', fields);
  const { id } = await find(fields.name);
  expect((await open(`/webhooks/${id}/edit`)).text).not.toContain('name="unverified"');
  const unchecked = { name: fields.name, signature_scheme: 'sha256', public_key: '' };
  const refused = await open(`/webhooks/${id}/edit`, unchecked);
  expect(refused.status).toBe(422);
  expect(refused.text).toMatch(/name="unverified" value="true" aria-describedby="e-unverified"/);
  expect(refused.text).toContain('anyone who knows its URL can send requests. Give it a secret first');
  expect((await find(fields.name)).signature_scheme).toBe('discord');
  expect((await open(`/webhooks/${id}/edit`, { ...unchecked, unverified: 'true' })).status).toBe(303);
  expect(await find(fields.name)).toMatchObject({ signature_scheme: 'sha256', public_key: null, has_secret: false });
});

test('a verify token stays when its field is empty', async () => {
  const fields = { name: 'pages', signature_scheme: 'meta', ...given };
  await open('/webhooks/new', { ...fields, verify_token: 'a good token' });
  const { id } = await find('pages');
  expect((await open(`/webhooks/${id}/edit`, fields)).status).toBe(303);
  expect((await find('pages')).has_verify_token).toBe(true);
});
