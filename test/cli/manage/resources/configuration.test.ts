/** The configuration as a file: `weir export` and `weir apply`, on the machine of Weir and over HTTP. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { applyFile } from '../../../../server/cli/manage/configuration/apply.ts';
import { openLocal } from '../../../../server/cli/manage/socket.ts';
import { addAgent, send, startAgentApp } from '../../../helpers/agents.ts';
import type { TestApp } from '../../../helpers/app.ts';
import { type CommandResult, weir, weirJson, weirWith } from '../../../helpers/command.ts';
import { addPerson } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { someKey, temporaryDirectory } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';

const NOTHING = 'Weir has the configuration of the file: nothing to do.\n';
const directory = temporaryDirectory();
const app = shared(startAgentApp);
/** Has nothing that another test made. */
const empty = shared(startAgentApp);

/** Writes the file and runs `weir apply -f FILE ...`. */
async function apply(
  content: object | string,
  args: string[] = [],
  environment: Record<string, string> = {},
  at: TestApp = app,
): Promise<CommandResult> {
  const file = join(directory, `${randomUUID()}.yaml`);
  await writeFile(file, typeof content === 'string' ? content : stringify(content));
  return weirWith(at, environment, 'apply', '-f', file, ...args);
}

const webhookOf = async (id: string, at: TestApp = app) => {
  const { code, out } = await weir(at, 'webhook', 'show', id, '--json');
  return code === 0 ? JSON.parse(out) : null;
};

test('after export, wipe and apply the same URLs verify with the same secrets, and a second apply has nothing to do', async () => {
  const shop = await empty.addWebhook({
    name: 'Shop: orders',
    rate_limit_max: 100_000,
    expect_every_seconds: 3_600,
    signature_scheme: 'custom',
    scheme_definition: {
      algorithm: 'hmac-sha256',
      header: 'x-own',
      prefix: 'sha256=',
      encoding: 'hex',
      content: '{body}',
    },
  });
  const meta = await empty.addWebhook({
    name: 'meta',
    signature_scheme: 'meta',
    verify_token: 'a token',
    enabled: false,
  });
  const open = await empty.addWebhook({ name: 'open', secret: null, description: 'two\nlines: "quoted" # no comment' });
  await weir(empty, 'agent', 'add', '--name', 'ci', '--max-leased', '7', '--webhook', 'Shop: orders');
  await weir(empty, 'agent', 'subscribe', 'ci', '--webhook', 'open', '--filter', 'body.kind == "a"');
  await weir(empty, 'agent', 'add', '--name', 'idle');
  const agents = (await weirJson(empty, 'agent', 'list')).items as { id: string; name: string }[];

  const exported = await weir(empty, 'export');
  expect(exported.code).toBe(0);
  expect(exported.err).toBe(
    'weir: keep the file secret: its ids are all that protects webhooks that check no signature: open\n',
  );
  expect(exported.out).not.toMatch(/a secret between friends|a token|wa_/);
  expect(exported.out).toContain(`- webhook: ${shop.id} # Shop: orders\n`);
  const idOf = (name: string) => agents.find((one) => one.name === name)!.id;
  expect(parse(exported.out)).toEqual({
    version: 1,
    webhooks: [
      {
        id: shop.id,
        name: 'Shop: orders',
        signature_scheme: 'custom',
        scheme_definition: expect.objectContaining({ header: 'x-own' }),
        rate_limit_max: 100_000,
        expect_every_seconds: 3_600,
        secret: { env: 'WEBHOOK_SECRET_SHOP_ORDERS' },
      },
      {
        id: meta.id,
        name: 'meta',
        enabled: false,
        signature_scheme: 'meta',
        secret: { env: 'WEBHOOK_SECRET_META' },
        verify_token: { env: 'WEBHOOK_VERIFY_TOKEN_META' },
      },
      { id: open.id, name: 'open', description: 'two\nlines: "quoted" # no comment' },
    ],
    agents: [
      {
        id: idOf('ci'),
        name: 'ci',
        max_leased: 7,
        subscriptions: [{ webhook: shop.id }, { webhook: open.id, filter: 'body.kind == "a"' }].sort((a, b) =>
          a.webhook < b.webhook ? -1 : 1,
        ),
      },
      { id: idOf('idle'), name: 'idle' },
    ],
  });
  expect((await apply(exported.out, ['--prune'], {}, empty)).out).toBe(NOTHING);

  const before = await weirJson(empty, 'webhook', 'list');
  const wiped = await apply('version: 1\nwebhooks: []\nagents: []\n', ['--prune', '--yes'], {}, empty);
  expect([wiped.code, wiped.err]).toEqual([0, '']);
  expect((await weirJson(empty, 'webhook', 'list')).items).toEqual([]);
  expect((await weirJson(empty, 'agent', 'list')).items.every(({ revoked }: { revoked: boolean }) => revoked)).toBe(
    true,
  );

  const unset = await apply(exported.out, [], {}, empty);
  expect([unset.code, unset.err]).toEqual([
    1,
    expect.stringContaining('variable WEBHOOK_SECRET_SHOP_ORDERS is not set'),
  ]);
  const secrets = {
    WEBHOOK_SECRET_SHOP_ORDERS: shop.secret!,
    WEBHOOK_SECRET_META: meta.secret!,
    WEBHOOK_VERIFY_TOKEN_META: 'a token',
  };
  const applied = await apply(exported.out, [], secrets, empty);
  expect([applied.code, applied.err]).toEqual([0, expect.stringMatching(/^weir: webhook open .* checks no signature/)]);
  expect(applied.out).toMatch(/Credential of agent ci {2}wa_\w+ {3}\(shown once\)\n/);
  expect((await apply(exported.out, ['--prune'], {}, empty)).out).toBe(NOTHING);
  expect((await weir(empty, 'export')).out).toBe(exported.out);

  const after = await weirJson(empty, 'webhook', 'list');
  const unchanged = ({ items }: typeof before) =>
    (items as Record<string, unknown>[]).map(({ updated_at: _updated, ...rest }) => rest);
  expect(unchanged(after)).toEqual(unchanged(before));
  const statusOf = async (secret: string) => (await fetch(shop.url, signedRequest({ secret, header: 'x-own' }))).status;
  expect([await statusOf(shop.secret!), await statusOf('another')]).toEqual([202, 403]);
  const restored = (await weirJson(empty, 'audit', 'list', '--action', 'webhook.restore')).items;
  expect(restored.map(({ target }: { target: { id: string } }) => target.id).sort()).toEqual(
    [shop.id, meta.id, open.id].sort(),
  );
});

test('a change shows its members, and makes only those', async () => {
  const { id } = await app.addWebhook({ name: 'orders' });
  const changed = { version: 1, webhooks: [{ id, name: 'orders', rate_limit_max: 5, secret: { env: 'UNUSED' } }] };
  const shown = await apply(changed, ['--dry-run']);
  expect(shown).toEqual({
    code: 0,
    err: '',
    out: `~ webhook orders (${id})\n    rate_limit_max: null -> 5\n1 change; nothing was changed.\n`,
  });
  expect(await webhookOf(id)).toMatchObject({ rate_limit_max: null });
  const answer = await apply(changed, ['--json']);
  expect(JSON.parse(answer.out)).toEqual({
    applied: true,
    changes: [
      { action: 'update', kind: 'webhook', id, name: 'orders', members: { rate_limit_max: 5 }, references: {} },
    ],
  });
  expect(await webhookOf(id)).toMatchObject({ rate_limit_max: 5, has_secret: true });
  expect((await apply({ version: 1, webhooks: [{ id, name: 'orders' }] })).out).toContain('rate_limit_max: 5 -> null');
});

test('a webhook gets a secret in place of its public key, and back', async () => {
  const byKey = { signature_scheme: 'discord', public_key: 'ab'.repeat(32) };
  const { id, url } = await app.addWebhook({ name: 'keys', secret: null, ...byKey });
  const file = (members: object) => ({ version: 1, webhooks: [{ id, name: 'keys', ...members }] });
  const bySecret = file({ signature_scheme: 'github', secret: { env: 'SECRET' } });
  for (const SECRET of ['first', 'second']) {
    expect(await apply(bySecret, [], { SECRET })).toMatchObject({ code: 0, err: '' });
    expect((await fetch(url, signedRequest({ secret: SECRET }))).status).toBe(202);
    expect((await apply(file(byKey))).code).toBe(0);
    // The secret that stays is not asked for.
    const own = (await weirJson(app, 'export')).webhooks.find((one: { id: string }) => one.id === id);
    expect(own).toEqual({ id, name: 'keys', ...byKey });
    expect((await apply(file(byKey))).out).toBe(NOTHING);
  }
});

test('a new subscription begins with its filter, and one that is absent ends', async () => {
  const [one, other] = [await app.addWebhook({ name: 'one' }), await app.addWebhook({ name: 'other' })];
  const agent = await addAgent(app, [one]);
  const { name } = await weirJson(app, 'agent', 'show', agent.id);
  const wanted = [{ webhook: other.id, filter: 'bytes > 1' }];
  const file = { version: 1, agents: [{ id: agent.id, name, subscriptions: wanted }] };
  expect((await apply(file)).out).toBe(
    `+ subscription of agent ${name} to webhook other (${other.id})\n    filter: "bytes > 1"\n` +
      `- subscription of agent ${name} to webhook one (${one.id})\n2 changes made.\n`,
  );
  expect((await weirJson(app, 'agent', 'webhooks', agent.id)).items).toMatchObject([
    { webhook_id: other.id, filter: 'bytes > 1' },
  ]);
  expect((await apply(file)).out).toBe(NOTHING);
});

test('--prune asks on a terminal, with the number of undelivered events, and needs --yes elsewhere', async () => {
  const kept = await app.addWebhook({ name: 'kept' });
  const gone = await app.addWebhook({ name: 'gone' });
  const agent = await addAgent(app, [gone]);
  await send(gone);
  const others = (await weirJson(app, 'export')).webhooks.filter(({ id }: { id: string }) => id !== gone.id);
  const file = { version: 1, webhooks: others };
  const refused = await apply(file, ['--prune']);
  expect([refused.code, refused.out]).toEqual([1, `- webhook gone (${gone.id}): 1 undelivered event\n`]);
  expect(refused.err).toContain('nothing was changed');
  expect(await webhookOf(gone.id)).not.toBeNull();

  const path = join(directory, 'pruned.yaml');
  await writeFile(path, stringify(file));
  const answering = async (text: string) => {
    const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
    for (const stream of Object.values(streams)) Object.assign(stream, { isTTY: true });
    streams.stdin.end(text);
    const { conninfo, settings } = app;
    const environment = { DATABASE_URL: conninfo, DATA_DIR: settings.DATA_DIR, SECRETS_KEY: someKey };
    const io = { environment, directory: settings.DATA_DIR, ...streams };
    const { call } = await openLocal(io);
    const outcome = await applyFile(io, call, { file: path, prune: true }).then(
      ({ applied }) => applied,
      (error: Error) => error.message,
    );
    return { outcome, asked: String(streams.stderr.read()).split('\n').at(-1) };
  };
  expect(await answering('n\n')).toEqual({
    outcome: expect.stringContaining('nothing was changed'),
    asked:
      'Requests to the URLs of 1 webhook then get a 404 response. 1 undelivered event among what goes. Continue? [y/N] ',
  });
  expect((await answering('y\n')).outcome).toBe(true);
  expect([await webhookOf(gone.id), await webhookOf(kept.id)]).toEqual([
    null,
    expect.objectContaining({ id: kept.id }),
  ]);
  // The file has no section of agents.
  expect(await weirJson(app, 'agent', 'show', agent.id)).toMatchObject({ revoked: false });
});

test('over HTTP an administrator creates with the id of the file, from a file with the secret; an operator is refused', async () => {
  const id = randomUUID();
  await writeFile(join(directory, 'secret'), 'from a file\r\n');
  const content = stringify({
    version: 1,
    webhooks: [{ id, name: 'remote', signature_scheme: 'github', secret: { file: 'secret' } }],
  });
  const [administrator, operator] = [await addPerson(app, 'administrator'), await addPerson(app, 'operator')];
  const at = ({ token }: { token: string }) => apply(content, ['--url', app.url], { WEIR_TOKEN: token });
  const refused = await at(operator);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('needs the role administrator')]);
  const made = await at(administrator);
  expect(made.out).toContain(`+ webhook remote (${id})\n    enabled: true\n    signature_scheme: "github"\n`);
  expect(made.out).toMatch(/1 change made\.\nOn http/);
  const github = (secret: string) => fetch(`${app.url}/in/${id}`, signedRequest({ secret }));
  expect([(await github('from a file')).status, (await github('other')).status]).toEqual([202, 403]);
  expect((await at(operator)).out).toBe(`${NOTHING}On ${app.url}\n`);
});

const id = randomUUID();
test.each([
  ['version: 1\nwebhooks:\n  - id: x\n    name: a\n', /line 3: webhooks\.0\.id/],
  [`version: 1\nwebhooks:\n  - id: ${id}\n`, /webhooks\.0\.name/],
  [`version: 1\nwebhooks:\n  - {id: ${id}, name: a, cell: 1}\n`, /Unrecognized key.*cell/],
  [`version: 1\nwebhooks:\n  - {id: ${id}, name: a, secret: plain}\n`, /webhooks\.0\.secret/],
  [`version: 1\nwebhooks:\n  - {id: ${id}, name: a}\n  - {id: ${id}, name: b}\n`, /line 4: .*twice/],
  [`version: 1\nagents: [{id: ${id}, name: a, subscriptions: [{webhook: ${id}}]}]`, /not in the file/],
  ['version: 2\n', /version/],
  ['version: 1\nversion: 1\n', /unique/],
  [
    'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n',
    /alias/,
  ],
  ['', /the file/],
])('refuses %j before any change', async (content, message) => {
  const { code, out, err } = await apply(content);
  expect([code, out]).toEqual([2, '']);
  expect(err).toMatch(message);
  expect(err.trimEnd()).not.toContain('\n');
});

test('a change that is refused says what was made before it', async () => {
  const [first, second] = [randomUUID(), randomUUID()];
  const file = {
    version: 1,
    webhooks: [
      { id: first, name: 'first' },
      { id: second, name: 'second', signature_scheme: 'github' },
    ],
  };
  const { code, err } = await apply(file);
  expect(code).toBe(2);
  expect(err).toContain(`weir: webhook second (${second}): refused; 1 of 2 changes were made\n`);
  expect(err).toContain('needs the secret');
  expect(await webhookOf(first)).toMatchObject({ name: 'first' });
  const third = { id: randomUUID(), name: randomUUID(), subscriptions: [] };
  const { out } = await apply({ version: 1, agents: [third, { ...third, id: randomUUID() }] }, ['--json']);
  expect(JSON.parse(out)).toMatchObject({
    applied: false,
    changes: [{ id: third.id, credential: expect.stringMatching(/^wa_/) }],
  });
});

test('a new agent gets the name that another one had, and the header of an order is written in any case', async () => {
  const webhook = await app.addWebhook();
  const [kept, added] = [randomUUID(), randomUUID()];
  const name = `a ${kept}`;
  expect((await apply({ version: 1, agents: [{ id: kept, name, subscriptions: [] }] })).code).toBe(0);
  const order = { webhook: webhook.id, order_by: 'header:X-Tenant' };
  const file = {
    version: 1,
    agents: [
      { id: added, name, subscriptions: [order] },
      { id: kept, name: `b ${kept}`, subscriptions: [] },
    ],
  };
  expect((await apply(file)).code).toBe(0);
  expect((await apply(file)).out).toBe(NOTHING);
});
