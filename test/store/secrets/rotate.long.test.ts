/** `weir keys rotate`: everything sealed under the previous key is under the current one afterwards, despite interruptions. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { systemActor } from '../../../server/store/audit/record.ts';
import { derivedKeys, recordKeys } from '../../../server/store/secrets/keys.ts';
import { rotateKeys, sealedTables } from '../../../server/store/secrets/rotate.ts';
import { fingerprintOf, seal, unsealBy } from '../../../server/store/secrets/seal.ts';
import { startTestApp } from '../../helpers/app.ts';
import { weirOn } from '../../helpers/command.ts';
import { addPerson, request } from '../../helpers/people.ts';
import { createConflictOnce, freshDatabase } from '../../helpers/postgres.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { ofEach, ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made, newWebhook, webhooksOf } from '../../helpers/webhooks.ts';
import { spawnWeir } from '../../helpers/weir.ts';

const oldKey = Buffer.alloc(32, 8).toString('base64');
const strangeKey = Buffer.alloc(32, 9).toString('base64');
/** Rows of one transaction, as BATCH_ROWS of store/secrets/rotate.ts. */
const BATCH_ROWS = 200;

const fresh = ofEach(freshDatabase);

const settings = () => ({
  DATABASE_URL: fresh.conninfo,
  SECRETS_KEY: someKey,
  SECRETS_KEY_PREVIOUS: oldKey,
  WORKERS: 1,
});

/** The command as run by a shell. */
async function rotate(args: string[] = ['--json'], given: object = settings()) {
  const run = spawnWeir({ ...given, DATA_DIR: temporaryDirectory() }, { command: ['keys', 'rotate', ...args] });
  const code = await run.ended;
  return { code, out: run.lines.join('\n'), err: run.stderr().trimEnd() };
}
const counts = (out: string) => JSON.parse(out).counts;

async function addWebhook(key: string, secret = 'hush'): Promise<string> {
  const { id } = made(await webhooksOf(fresh, [key]).add(newWebhook({ secret })));
  return id;
}

/** Inserts many at once, without the service. */
async function addWebhooks(key: string, count: number): Promise<void> {
  const [derived] = derivedKeys([key], 'webhook-secrets');
  const rows = Array.from({ length: count }, () => {
    const id = randomUUID();
    return { id, sealed: seal(Buffer.from('hush'), derived!, id).toString('hex') };
  });
  const given = 'from jsonb_to_recordset($1::jsonb) as n (id uuid, sealed text)';
  const values = [JSON.stringify(rows)];
  await fresh.database.query({ text: `insert into webhooks (id, name) select id, 'many' ${given}`, values });
  await fresh.database.query({
    text: `insert into webhook_secrets (webhook_id, slot, sealed) select id, 'current', decode(sealed, 'hex') ${given}`,
    values,
  });
}

/** Number of stored secrets that each key decrypts, in order. */
async function openedBy(...keys: string[]): Promise<number[]> {
  const rows = await fresh.database.query<{ id: string; sealed: Buffer }>({
    text: 'select webhook_id as id, sealed from webhook_secrets',
  });
  const derived = derivedKeys(keys, 'webhook-secrets');
  const keyIndexes = rows.map(({ id, sealed }) => unsealBy(sealed, derived, id)?.keyIndex);
  return keys.map((_, index) => keyIndexes.filter((found) => found === index).length);
}

test('every table with a sealed column is listed', async () => {
  const rows = await fresh.database.query<{ column: string }>({
    text: `select table_name || '.' || column_name as column from information_schema.columns
           where table_schema = 'public' and data_type = 'bytea' and column_name ~ 'sealed|answer|secret|verify_token' order by 1`,
  });
  const known = Object.values(sealedTables).map(({ name, column }) => `${name}.${column}`);
  // Hashes of credentials, which contain nothing encrypted.
  const hashes = /secret_hash$/;
  expect(rows.map(({ column }) => column).filter((column) => !hashes.test(column))).toEqual(known.sort());
});

describe('weir keys rotate', () => {
  test('re-encrypts current, previous and expired secrets, counts them, and does nothing the second time', async () => {
    const twice = await addWebhook(oldKey, 'first');
    made(await webhooksOf(fresh, [oldKey]).rotate(twice, { secret: 'second', overlap_seconds: 3_600 }));
    const expired = await addWebhook(oldKey, 'first');
    made(await webhooksOf(fresh, [oldKey]).rotate(expired, { secret: 'second', overlap_seconds: 3_600 }));
    await fresh.database.query({
      text: `update webhook_secrets set expires_at = now() - interval '1 day' where webhook_id = $1 and slot = 'previous'`,
      values: [expired],
    });
    await addWebhook(someKey);
    const first = await rotate();
    expect([first.code, first.err]).toEqual([0, '']);
    expect(JSON.parse(first.out)).toEqual({
      current_key: fingerprintOf(someKey).toString('hex'),
      previous_key: fingerprintOf(oldKey).toString('hex'),
      counts: {
        webhook_secrets: { stored: 5, reencrypted: 4, already_current: 1, unreadable: 0 },
        verify_tokens: { stored: 0, reencrypted: 0, already_current: 0, unreadable: 0 },
        cells: { stored: 0, reencrypted: 0, already_current: 0, unreadable: 0 },
        idempotency_answers: { stored: 0, reencrypted: 0, already_current: 0, unreadable: 0 },
      },
      previous_key_in_use: false,
      previous_sessions_until: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(await openedBy(someKey, oldKey)).toEqual([5, 0]);
    const second = await rotate();
    expect(counts(second.out).webhook_secrets).toEqual({
      stored: 5,
      reencrypted: 0,
      already_current: 5,
      unreadable: 0,
    });
    // The second run does not extend sessions of the previous key.
    const untilMs = [first, second].map(({ out }) => Date.parse(JSON.parse(out).previous_sessions_until));
    expect(Math.abs(untilMs[0]! - untilMs[1]!)).toBeLessThan(1_000);
  });

  test('prints what it did and what to do next', async () => {
    await addWebhook(oldKey);
    const { code, out } = await rotate([]);
    expect(code).toBe(0);
    expect(out).toMatch(/^webhook secrets +1 +1 +0 +0$/m);
    expect(out).toMatch(/remove SECRETS_KEY_PREVIOUS and restart Weir/);
  });

  test('is recorded without a key', async () => {
    await addWebhook(oldKey);
    await rotate();
    const text = `select entry::text from audit_log where action like 'secrets_key.%'`;
    const [row] = await fresh.database.query<{ entry: string }>({ text });
    const out = row!.entry;
    expect(JSON.parse(out)).toMatchObject({
      action: 'secrets_key.rotate',
      actor: { kind: 'command' },
      target: { kind: 'secrets_key', name: fingerprintOf(someKey).toString('hex') },
      after: { webhook_secrets: { reencrypted: 1 } },
    });
    for (const key of [someKey, oldKey]) expect(out).not.toContain(key);
    expect((await weirOn(fresh.conninfo, 'audit', 'verify')).code).toBe(0);
  });

  test('fails when no key decrypts a secret, and re-encrypts the others', async () => {
    await addWebhook(strangeKey);
    await addWebhook(oldKey);
    const { code, out, err } = await rotate([]);
    expect([code, await openedBy(someKey, oldKey, strangeKey)]).toEqual([1, [1, 0, 1]]);
    expect(out).toMatch(/^webhook secrets +2 +1 +0 +1$/m);
    expect(err).toMatch(/no configured key can decrypt: 1\. .*weir webhook rotate ID$/);
  });

  test('does nothing without a previous key', async () => {
    await addWebhook(someKey);
    const { code, out } = await rotate([], { ...settings(), SECRETS_KEY_PREVIOUS: '' });
    expect([code, out.split('\n').at(-1)]).toEqual([0, 'There is no previous key, so there is nothing to re-encrypt.']);
  });

  test('accepts no argument', async () => {
    expect((await rotate(['now'])).code).toBe(2);
  });

  test('is refused while processes serve that do not know the current key: they could not decrypt the result', async () => {
    const app = await ofTest(startTestApp({ SECRETS_KEY: oldKey }));
    const webhook = await app.addWebhook();
    const given = { ...settings(), DATABASE_URL: app.conninfo };
    const refused = await rotate([], given);
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/^weir: Weir runs without this SECRETS_KEY/),
    ]);
    expect((await fetch(webhook.url, signedRequest(webhook))).status).toBe(202);
    // As recorded by the start with the new key.
    await app.database.transaction((query) => recordKeys(query, fingerprintOf(someKey), null, { again: false }));
    expect((await rotate([], given)).code).toBe(0);
  });

  test('killed with -9 in progress has completed whole batches, and the next run does the rest', async () => {
    const rows = 2 * BATCH_ROWS + 1;
    await addWebhooks(oldKey, rows);
    let killed: ReturnType<typeof spawnWeir>;
    await fresh.database.transaction(async (query) => {
      // The last row is locked: the run waits for it.
      await query({ text: 'select from webhook_secrets order by webhook_id desc limit 1 for update' });
      killed = spawnWeir({ ...settings(), DATA_DIR: temporaryDirectory() }, { command: ['keys', 'rotate'] });
      const isDone = async () => (await openedBy(someKey))[0] === 2 * BATCH_ROWS;
      await until(isDone);
      killed.child.kill('SIGKILL');
      await killed.ended;
    });
    expect(await openedBy(someKey, oldKey)).toEqual([2 * BATCH_ROWS, 1]);
    const { code, out } = await rotate();
    expect([code, counts(out).webhook_secrets]).toEqual([
      0,
      { stored: rows, reencrypted: 1, already_current: 2 * BATCH_ROWS, unreadable: 0 },
    ]);
    expect(await openedBy(someKey, oldKey)).toEqual([rows, 0]);
  });
});

test('a response stored for an Idempotency-Key is returned under the new key alone, and for the same request only', async () => {
  const app = await ofTest(startTestApp({ SECRETS_KEY: oldKey }));
  const operator = await addPerson(app, 'operator');
  const key = randomUUID();
  const send = (url: string, name: string) =>
    request(
      `${url}/api/v1/webhooks`,
      'POST',
      { name },
      {
        authorization: `Bearer ${operator.token}`,
        'idempotency-key': key,
      },
    );
  const first = await send(app.url, 'a');
  expect(first.status).toBe(201);
  await app.database.transaction((query) => recordKeys(query, fingerprintOf(someKey), null, { again: false }));
  const { out } = await rotate(['--json'], { ...settings(), DATABASE_URL: app.conninfo });
  expect(counts(out).idempotency_answers).toEqual({ stored: 1, reencrypted: 1, already_current: 0, unreadable: 0 });
  const after = await ofTest(startTestApp({ SECRETS_KEY: someKey }, app));
  const again = await send(after.url, 'a');
  expect([again.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([201, first.body, 'true']);
  expect((await send(after.url, 'b')).body.code).toBe('idempotency_key_reused');
});

test('a batch that is repeated after a conflict is counted once', async () => {
  await addWebhook(oldKey);
  await fresh.database.query({
    text: `
      ${createConflictOnce};
      create trigger conflict_once after update on webhook_secrets for each statement execute function conflict_once()`,
  });
  expect(await rotateKeys(fresh.database, [someKey, oldKey], systemActor)).toMatchObject({
    rotation: { counts: { webhook_secrets: { stored: 1, reencrypted: 1, already_current: 0, unreadable: 0 } } },
  });
});
