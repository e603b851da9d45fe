/** The members of a webhook that select its signature scheme: what is refused, and what is shown. */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startAgentApp } from '../../../helpers/agents.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const PATH = '/api/v1/webhooks';
const KEY = generateKeyPairSync('ed25519')
  .publicKey.export({ format: 'der', type: 'spki' })
  .subarray(-32)
  .toString('hex');
const DEFINITION = { algorithm: 'hmac-sha256', header: 'x-own' };

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));

const schemeOf = ({
  signature_scheme,
  scheme_definition,
  signature_header,
  tolerance_seconds,
  public_key,
}: Record<string, unknown>) => ({
  signature_scheme,
  scheme_definition,
  signature_header,
  tolerance_seconds,
  public_key,
});
const create = (body: object) => operator.api('POST', PATH, { name: 'test', ...body });
const patch = (id: string, body: object) => operator.api('PATCH', `${PATH}/${id}`, body);

test.each<[string, object, string]>([
  ['nonsense', {}, '/signature_scheme'],
  ['stripe', {}, '/secret'],
  ['stripe', { secret: 'x', signature_header: 'x-own' }, '/signature_header'],
  ['token', { secret: 'x' }, '/signature_header'],
  // Neither a user and a password, nor base64.
  ['basic', { secret: 'x' }, '/secret'],
  ['svix', { secret: 'whsec_not base64!' }, '/secret'],
  ['discord', {}, '/public_key'],
  ['discord', { public_key: 'ab' }, '/public_key'],
  ['discord', { public_key: KEY, secret: 'x' }, '/secret'],
  ['discord', { public_key: KEY, generate_secret: true }, '/secret'],
  ['stripe', { secret: 'x', public_key: KEY }, '/public_key'],
  ['custom', { secret: 'x' }, '/scheme_definition'],
  ['stripe', { secret: 'x', scheme_definition: DEFINITION }, '/scheme_definition'],
  ['custom', { secret: 'x', scheme_definition: { ...DEFINITION, content: 'x' } }, '/scheme_definition/content'],
  // Without a time, and without a handshake.
  ['github', { secret: 'x', tolerance_seconds: 5 }, '/tolerance_seconds'],
  ['stripe', { secret: 'x', tolerance_seconds: -1 }, '/tolerance_seconds'],
  ['stripe', { secret: 'x', verify_token: 't' }, '/verify_token'],
  // 1,025 and 1,026 bytes.
  ['github', { secret: 'x'.repeat(1_025) }, '/secret'],
  ['github', { secret: 'ö'.repeat(513) }, '/secret'],
])('a new webhook of %s with %.80j is refused by its member %s', async (signature_scheme, members, pointer) => {
  const answer = await create({ signature_scheme, ...members });
  expect(answer.status).toBe(422);
  expect(answer.body.errors[0]).toMatchObject({ pointer, detail: expect.stringMatching(/\.$/) });
});

test('a secret of one byte and one of 1,024 bytes are taken', async () => {
  for (const secret of ['x', 'x'.repeat(1_024)])
    expect((await create({ signature_scheme: 'github', secret })).status).toBe(201);
});

test('the members are shown, and neither secret nor verify token', async () => {
  const answer = await create({ signature_scheme: 'meta', secret: 'a good secret', verify_token: 'a good token' });
  expect(answer.body).toMatchObject({
    signature_scheme: 'meta',
    scheme_definition: null,
    tolerance_seconds: null,
    public_key: null,
    has_secret: true,
    has_verify_token: true,
  });
  expect(answer.text).not.toMatch(/a good/);
  const [row] = await app.sql<{ sealed: string }>(
    `select encode(verify_token, 'escape') as sealed from webhooks where id = $1`,
    answer.body.id,
  );
  expect(row!.sealed).not.toContain('a good token');
});

test('the definition and the public key are shown as given', async () => {
  const scheme_definition = { ...DEFINITION, content: '{timestamp}{body}', timestamp: { from: 'header:x-t' } };
  const custom = await create({ signature_scheme: 'custom', scheme_definition, secret: 'x', tolerance_seconds: 0 });
  expect(custom.body).toMatchObject({ signature_scheme: 'custom', scheme_definition, tolerance_seconds: 0 });
  expect((await create({ signature_scheme: 'discord', public_key: KEY })).body.public_key).toBe(KEY);
});

test.each([
  ['github', /^[0-9a-f]{64}$/],
  ['standard-webhooks', /^whsec_[A-Za-z0-9+/]{43}=$/],
  ['basic', /^weir:[0-9a-f]{64}$/],
])('a secret generated for %s has the form that the scheme takes', async (signature_scheme, form) => {
  expect((await create({ signature_scheme, generate_secret: true })).body.secret).toMatch(form);
});

describe('a change', () => {
  test('to another scheme keeps the secret, and is refused where the members do not fit', async () => {
    const { id } = (await create({ secret: 'x', signature_header: 'x-own' })).body;
    expect((await patch(id, { signature_scheme: 'stripe' })).body.errors[0].pointer).toBe('/signature_header');
    const changed = await patch(id, { signature_scheme: 'stripe', signature_header: null });
    expect(changed.body).toMatchObject({ signature_scheme: 'stripe', has_secret: true });
    expect((await patch(id, { signature_scheme: 'discord' })).body.errors[0].pointer).toBe('/public_key');
    expect((await patch(id, { signature_scheme: 'discord', public_key: KEY })).status).toBe(200);
    expect((await patch(id, { signature_scheme: 'sha256', public_key: null })).status).toBe(200);
  });

  test('of a webhook without a secret to a preset is refused', async () => {
    const { id } = (await create({})).body;
    expect((await patch(id, { signature_scheme: 'github' })).body.errors[0].pointer).toBe('/secret');
  });

  test('after which signatures are not checked needs unverified', async () => {
    const { id } = (await create({ signature_scheme: 'discord', public_key: KEY })).body;
    const change = { signature_scheme: 'sha256', public_key: null };
    for (const unverified of [undefined, false]) {
      const refused = await patch(id, { ...change, unverified });
      expect([refused.status, refused.body.errors[0].pointer]).toEqual([422, '/unverified']);
    }
    expect((await operator.api('GET', `${PATH}/${id}`)).body).toMatchObject({ signature_scheme: 'discord' });
    const made = await patch(id, { ...change, unverified: true });
    expect(made).toMatchObject({ status: 200, body: { signature_scheme: 'sha256', has_secret: false } });
    // Nothing was checked before either.
    expect((await patch(id, { signature_header: 'x-own' })).status).toBe(200);
  });

  test('after which a secret is left needs no unverified', async () => {
    const { id } = (await create({ secret: 'x' })).body;
    expect((await patch(id, { signature_scheme: 'discord', public_key: KEY })).status).toBe(200);
    expect((await patch(id, { signature_scheme: 'sha256', public_key: null })).status).toBe(200);
  });

  const states: [string, object][] = [
    ['no secret', {}],
    ['sha256 with a header', { secret: 'x', signature_header: 'x-own' }],
    ['token', { signature_scheme: 'token', secret: 'x', signature_header: 'x-own' }],
    ['stripe with a tolerance', { signature_scheme: 'stripe', secret: 'x', tolerance_seconds: 9 }],
    ['meta with a verify token', { signature_scheme: 'meta', secret: 'x', verify_token: 't' }],
    ['standard-webhooks', { signature_scheme: 'standard-webhooks', secret: 'whsec_AAAA' }],
    ['discord', { signature_scheme: 'discord', public_key: KEY }],
    ['custom', { signature_scheme: 'custom', scheme_definition: DEFINITION, secret: 'x' }],
    ['disabled custom', { signature_scheme: 'custom', scheme_definition: DEFINITION, secret: 'x', enabled: false }],
  ];
  const members: object[] = [
    ...['sha256', 'token', 'basic', 'stripe', 'meta', 'svix', 'discord', 'custom'].map((signature_scheme) => ({
      signature_scheme,
    })),
    ...[null, DEFINITION].map((scheme_definition) => ({ scheme_definition })),
    ...[null, 'x-other', 'content-length'].map((signature_header) => ({ signature_header })),
    ...[null, 0, 31_536_000].map((tolerance_seconds) => ({ tolerance_seconds })),
    ...[null, KEY, 'ab'].map((public_key) => ({ public_key })),
    ...[null, 't'].map((verify_token) => ({ verify_token })),
  ];
  test.each(states)(
    'of each member alone, of a webhook of %s, is made or refused with the member',
    async (_, state) => {
      const made = await create(state);
      expect(made.status).toBe(201);
      for (const member of members) {
        const answer = await patch(made.body.id, member);
        if (answer.status === 200) {
          const undo = { ...schemeOf(made.body), ...('verify_token' in state && { verify_token: state.verify_token }) };
          expect(await patch(made.body.id, undo), JSON.stringify(member)).toMatchObject({ status: 200 });
        } else expect(answer, JSON.stringify(member)).toMatchObject({ status: 422, body: { code: 'invalid_request' } });
      }
      expect((await operator.api('GET', `${PATH}/${made.body.id}`)).body).toMatchObject(schemeOf(made.body));
    },
  );

  test('removes a verify token', async () => {
    const { id } = (await create({ signature_scheme: 'meta', secret: 'x', verify_token: 't' })).body;
    expect((await patch(id, { verify_token: null })).body.has_verify_token).toBe(false);
  });

  test('from a public key to a secret takes both at once', async () => {
    const { id } = (await create({ signature_scheme: 'discord', public_key: KEY })).body;
    const change = { signature_scheme: 'svix', public_key: null };
    for (const given of [change, { ...change, secret: 'no base64!' }])
      expect(await patch(id, given)).toMatchObject({ status: 422, body: { errors: [{ pointer: '/secret' }] } });
    const { body } = await patch(id, { ...change, secret: 'whsec_AAAA' });
    expect(body).toMatchObject({ signature_scheme: 'svix', has_secret: true });
    expect((await operator.api('POST', `${PATH}/${id}/test`, {})).body).toMatchObject({ status: 202 });
  });

  test('of the secret takes only what the scheme takes', async () => {
    const rotate = (id: string, body: object) => operator.api('POST', `${PATH}/${id}/rotate-secret`, body);
    const svix = (await create({ signature_scheme: 'svix', generate_secret: true })).body;
    expect((await rotate(svix.id, { secret: 'no base64!' })).body.errors[0].pointer).toBe('/secret');
    expect((await rotate(svix.id, {})).body.secret).toMatch(/^whsec_/);
    const discord = (await create({ signature_scheme: 'discord', public_key: KEY })).body;
    expect((await rotate(discord.id, {})).status).toBe(422);
  });
});

test.each([
  ['stripe', 202, {}],
  ['standard-webhooks', 202, { secret: 'whsec_AAAA' }],
  ['twilio', 200, {}],
  ['basic', 202, { secret: 'user:password' }],
] as const)('a test request of a webhook of %s is signed by it', async (signature_scheme, status, given) => {
  const { id } = (await create({ signature_scheme, secret: 'a good secret', ...given })).body;
  expect((await operator.api('POST', `${PATH}/${id}/test`, {})).body).toMatchObject({ status });
});

test('a test request of a scheme with a public key is not sent, and says why', async () => {
  const { id } = (await create({ signature_scheme: 'discord', public_key: KEY })).body;
  const { body } = await operator.api('POST', `${PATH}/${id}/test`, {});
  expect(body).toMatchObject({ status: null, answer: { detail: expect.stringContaining('private key') } });
});

test('the schemes are listed, at least 100', async () => {
  const answer = await fetch(`${app.url}/api/v1/signature-schemes`);
  const { items } = (await answer.json()) as { items: { name: string; steps: string[]; documentation: string }[] };
  expect(items.length).toBeGreaterThanOrEqual(100);
  const names = items.map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining(
      'sha256 github gitlab gitlab-token stripe slack shopify standard-webhooks svix twilio paddle square zoom linear sentry discord bitbucket jira typeform mailgun sendgrid intercom hubspot meta dropbox microsoft-graph sanity basic token'.split(
        ' ',
      ),
    ),
  );
});
