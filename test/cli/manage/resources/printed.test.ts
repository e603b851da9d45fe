/**
 * What management commands print, line by line and in order, on one Weir. `{name}` stands for what a line before has printed. The documents
 * of `--json` are in cli/json.test.ts, refusals in refused.test.ts, and what an operation does in manage/api.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { HOUR_MS } from '../../../../server/base/time/durations.ts';
import { commands } from '../../../../server/cli/commands.ts';
import { rejectionDetailSchema } from '../../../../server/model/rejections.ts';
import { addHistory } from '../../../../server/store/queries/webhooks/history.ts';
import { addAgent, send, startAgentApp } from '../../../helpers/agents.ts';
import { makeInstallation, runCommands } from '../../../helpers/command.ts';
import { PASSWORD } from '../../../helpers/people.ts';
import { signatureOf, signedRequest } from '../../../helpers/requests.ts';
import { someKey, temporaryDirectory } from '../../../helpers/settings.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';
import { spawnWeir } from '../../../helpers/weir.ts';
import {
  agents,
  audit,
  BODY,
  definition,
  deliveries,
  events,
  GIVEN,
  type Row,
  rejected,
  SECRET,
  tokens,
  users,
  webhooks,
} from './printed-rows.ts';

const PUBLIC_URL = 'https://weir.example';
const UNKNOWN = randomUUID();
const directory = temporaryDirectory();
writeFileSync(join(directory, 'scheme.json'), JSON.stringify(definition));

const app = shared(() => startAgentApp({ SECRETS_KEY: someKey, DELIVERY_MAX_ATTEMPTS: 1, PUBLIC_URL }));

/** What was printed, by the name of a group, or was there before. */
const known = new Map<string, string>([['unknown', UNKNOWN]]);
/** Never printed again: generated secrets (groups with such a name), and those that are given. */
const hidden = new Set([SECRET, PASSWORD, GIVEN]);

const text = (line: string) => line.replace(/\{(\w+)\}/g, (_, name: string) => known.get(name)!);
/** Known values by their names. */
const named = (printed: string) =>
  [...known].reduce((rest, [name, value]) => rest.replaceAll(value, `{${name}}`), printed);

/** Runs a line, whose words may have quotes. */
function run(line: string, stdin = '') {
  const words = [...text(line).matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word);
  const { conninfo, settings } = app;
  const given = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: settings.DATA_DIR, PUBLIC_URL };
  return runCommands(commands, directory, given, words, stdin);
}

/** Waits until the requests before are counted among the rejections. */
const rejections = (count: number) => until(async () => (await app.sql('select from rejections')).length === count);

async function prepare(): Promise<void> {
  const crm = await app.addWebhook({ name: 'crm', event_type_from: 'json:/type' });
  const worker = await addAgent(app, [crm]);
  known.set('crm', crm.id).set('worker', worker.id);
  const bodies = ['{}', '{"type":"order.paid"}', '{"type":"order.created"}'];
  for (const [place, body] of bodies.entries()) known.set(`event${place}`, await send(crm, body));
  const claimed = await worker.claim();
  const receipts = claimed.map(({ receipt }) => receipt);
  await worker.nack(receipts, { reason: 'timeout calling \u001b[31mCRM' });
  known.set('dead', claimed[0]!.id);
  const headers = { 'content-type': 'text/Plain; charset=utf-8', 'x-shop': 'north' };
  const parcels = await app.addWebhook({ name: 'parcels', secret: null });
  const parcel = await fetch(parcels.url, { method: 'POST', body: 'a parcel', headers });
  known.set('parcels', parcels.id).set('parcel', ((await parcel.json()) as { id: string }).id);
  const counted = { text: 'select from history where webhook_id = $1', values: [parcels.id] };
  await until(async () => (await app.database.query(counted)).length > 0);
  const counts = { accepted: 12, duplicates: 1, rejected: 2, limited: 3, bytes: 400 };
  const minuteMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  await addHistory(app.database, [{ webhookId: parcels.id, minuteMs, ...counts }]);
}
beforeAll(prepare);

async function reject(): Promise<void> {
  const mistyped = await app.addWebhook({ name: 'mistyped', secret: 'mistyped at first' });
  await fetch(mistyped.url, signedRequest({ secret: SECRET, body: BODY }));
  await rejections(1);
  const other = await app.addWebhook({ name: 'other header', secret: GIVEN });
  await fetch(other.url, { method: 'POST', body: BODY, headers: { 'x-signature': signatureOf(GIVEN, BODY) } });
  await rejections(2);
  const rows = await app.sql<{ id: string }>('select id from rejections order by id');
  for (const [place, { id }] of rows.entries()) known.set(`rejection${place}`, id);
  known.set('mistyped', mistyped.id);
}

const digest = signatureOf(SECRET, BODY).slice('sha256='.length);

async function expectPrinted([line, printed, { code = 0, stdin = '' } = {}]: Row): Promise<void> {
  const { out, err, ...ended } = await run(line, stdin);
  expect(ended.code, err).toBe(code);
  expect(code === 0 ? err : out).toBe('');
  for (const secret of [...hidden, digest]) expect(out + err).not.toContain(secret);
  const given = named(out + err);
  const seen = given.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME');
  if (typeof printed === 'string') expect(seen).toBe(printed);
  else if (!(printed instanceof RegExp)) expect(JSON.parse(given)).toMatchObject(printed);
  else {
    const groups = printed.exec(seen)?.groups;
    expect(seen).toMatch(printed);
    for (const [name, value] of Object.entries(groups ?? {}))
      if (name.startsWith('secret')) hidden.add(value);
      else known.set(name, value);
  }
}

describe.each([
  ['users', users],
  ['tokens', tokens],
  ['webhooks', webhooks],
  ['agents', agents],
  ['events', events],
  ['deliveries', deliveries],
])('%s', (_, rows) => {
  test.each(rows)('weir %s', (...row) => expectPrinted(row as Row));
});

describe('rejections and the audit log', () => {
  beforeAll(reject);
  test.each([...rejected, ...audit])('weir %s', (...row) => expectPrinted(row as Row));

  test('the document of a rejection has the members of its table', async () => {
    const { out } = await run('rejection show {rejection0} --json');
    expect(Object.keys(JSON.parse(out)).sort()).toEqual(Object.keys(rejectionDetailSchema.shape).sort());
  });

  test('weir audit verify fails and names the first invalid entry', async () => {
    await app.sql(`begin; alter table audit_log disable trigger user;
             update audit_log set entry = '{"action":"nothing"}' where number = 2;
             alter table audit_log enable trigger user; commit`);
    const err = 'weir: Entry 2 was changed: its hash does not match. Valid entries before it: 1.\n';
    expect(await run('audit verify')).toEqual({ code: 1, out: '', err });
    const { code, out } = await run('audit verify --json');
    expect([code, JSON.parse(out)]).toMatchObject([1, { intact: false, first_broken: 2, head: { number: 1 } }]);
  });
});

test('agent add --credential-file writes a new file that others cannot read', async () => {
  const file = join(directory, 'worker.credential');
  const { code, out } = await run(`agent add --name filed --credential-file ${file}`);
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(`\n  Credential  in ${file}\n[^]* --credential-file ${file}\n$`),
  ]);
  expect(out).not.toContain('wa_');
  expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual([
    expect.stringMatching(/^wa_\w+\n$/),
    0o600,
  ]);
  const second = await run(`agent add --name second --credential-file ${file}`);
  expect(second).toEqual({ code: 1, out: '', err: `weir: ${file} exists already: name another file\n` });
  expect((await run('agent show second')).code).toBe(1);
  expect((await run(`agent add --name filed --credential-file ${file}.2`)).code).toBe(1);
  expect(existsSync(`${file}.2`)).toBe(false);
});

test('agent add --credential-file that cannot be written names the agent that needs another credential', async () => {
  const { conninfo, settings } = app;
  const given = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: settings.DATA_DIR };
  const file = join(directory, 'full.credential');
  const command = ['agent', 'add', '--name', 'unwritten', '--credential-file', file];
  const { ended, stderr } = spawnWeir(given, { command, within: ['sh', '-c', 'ulimit -f 0; exec "$@"', 'sh'] });
  expect(await ended).toBe(1);
  expect(stderr()).toMatch(
    /^weir: The agent unwritten was created, but its credential could not be written to .*: EFBIG.*weir agent rotate [\w-]{36}\n$/,
  );
  expect(existsSync(file)).toBe(false);
});

test('in hosted mode a user is created without a password, and a given one is refused', async () => {
  // Nothing listens on port 9.
  const client = { OIDC_ISSUER: 'https://127.0.0.1:9', OIDC_CLIENT_ID: 'weir', OIDC_CLIENT_SECRET: 'of the client' };
  const other = await ofTest(makeInstallation({ AUTH_MODE: 'hosted', ...client }));
  const add = ['user', 'add', '--email', 'ada@example.org', '--role', 'viewer'];
  expect(JSON.parse((await other.weir([...add, '--json'])).out)).toMatchObject({ has_password: false });
  for (const args of [
    [...add, '--password-stdin'],
    ['user', 'password', 'ada@example.org'],
  ])
    expect(await other.weir(args, PASSWORD)).toMatchObject({
      code: 2,
      err: expect.stringContaining('AUTH_MODE is hosted'),
    });
});
