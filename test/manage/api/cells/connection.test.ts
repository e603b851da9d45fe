/** Connection strings that an administrator gives over HTTP: what libpq is told, and what the audit log says. */
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import { weirWith } from '../../../helpers/command.ts';
import { addPerson } from '../../../helpers/people.ts';
import { listening } from '../../../helpers/ports.ts';
import { emptyDatabase } from '../../../helpers/postgres.ts';
import { relayTo } from '../../../helpers/relay.ts';
import { someKey, temporaryDirectory } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(() => startTestApp({ SECRETS_KEY: someKey }));
const administrator = shared(() => addPerson(app, 'administrator'));

/** What a Postgres server says that wants the password in clear text (AuthenticationCleartextPassword). */
const ASKS_PASSWORD = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]);

/** A program that listens, and asks who connects for a password. */
async function listener(): Promise<{ port: number; received: () => string[] }> {
  const received: string[] = [];
  const server = createServer((client) => {
    const place = received.push('') - 1;
    client.on('error', () => {});
    client.on('data', (bytes) => {
      received[place] += bytes.toString('latin1');
      // A refusal of TLS and of GSS, then the question.
      client.write(bytes.length === 8 ? 'N' : ASKS_PASSWORD);
    });
  });
  return { port: await listening(server), received: () => received };
}

async function entries() {
  const rows = await app.sql<{ entry: string }>(
    `select entry::text as entry from audit_log where entry->>'action' like 'cell.%' order by number`,
  );
  return rows.map(({ entry }) => JSON.parse(entry));
}

const add = (database: string) => administrator.api('POST', '/api/v1/cells', { name: 'far', database });

test('a parameter for local commands is refused also where libpq alone would see it, and leaves an audit entry', async () => {
  const evil = await listener();
  const file = join(temporaryDirectory(), 'pass');
  writeFileSync(file, '*:*:*:*:of-a-local-file\n', { mode: 0o600 });
  const { status, body } = await add(`postgres://good?sslmode=@127.0.0.1:${evil.port}/db?passfile=${file}`);
  expect([status, body.errors[0].detail]).toEqual([
    422,
    'The parameter passfile is for a command on the machine of Weir only.',
  ]);
  expect(evil.received()).toEqual([]);
  expect((await entries()).at(-1)).toMatchObject({
    action: 'cell.refuse',
    target: { kind: 'cell', id: null, name: 'far' },
    after: { address: `127.0.0.1:${evil.port}/db`, errors: body.errors },
  });
});

test('a server gets no password of this machine', async () => {
  const evil = await listener();
  const file = join(temporaryDirectory(), 'pass');
  writeFileSync(file, '*:*:*:*:of-a-local-file\n', { mode: 0o600 });
  Object.assign(process.env, { PGPASSWORD: 'of-the-environment', PGPASSFILE: file });
  onTestFinished(() => {
    delete process.env.PGPASSWORD;
    delete process.env.PGPASSFILE;
  });
  const { status, body } = await add(`postgres://u@127.0.0.1:${evil.port}/db`);
  expect(status).toBe(422);
  expect(evil.received().join()).toContain('weir');
  expect(evil.received().join()).not.toMatch(/of-/);
  const [entry] = (await entries()).slice(-1);
  expect(entry).toMatchObject({
    action: 'cell.refuse',
    after: { address: `127.0.0.1:${evil.port}/db`, errors: body.errors },
  });
});

test('the server that is shown is the one that is connected to, whatever the user and the password contain', async () => {
  const cell = await emptyDatabase();
  const { url, close } = await relayTo(cell);
  onTestFinished(() => cell.drop().finally(close));
  const { host, pathname } = new URL(url);
  const hidden = encodeURIComponent("x' host='good' options='-c jit=on");
  const { status, body } = await add(`${url.replace('@', `${new URL(url).password === '' ? ':' : ''}${hidden}@`)}`);
  expect([status, body.address]).toEqual([201, `${host}${pathname}`]);

  // Another server for the cell: refused, and recorded with the number of the cell.
  const evil = await listener();
  const changed = await administrator.api('PATCH', `/api/v1/cells/${body.number}`, {
    database: `postgres://u:p@127.0.0.1:${evil.port}/db`,
  });
  expect(changed.status).toBe(422);
  const at = { address: `127.0.0.1:${evil.port}/db` };
  expect((await entries()).at(-1)).toMatchObject({
    action: 'cell.refuse',
    target: { id: String(body.number) },
    after: at,
  });
  await weirWith(app, { SECRETS_KEY: someKey }, 'cell', 'drain', String(body.number));
});

test.each([
  ['PATCH', '', { name: 'other' }],
  ['DELETE', '', {}],
  ['POST', '/drain', undefined],
])('home, which is cell 0, refuses %s%s and says why', async (method, more, document) => {
  const { status, body } = await administrator.api(method, `/api/v1/cells/0${more}`, document);
  expect([status, body.code]).toEqual([404, 'cell_unknown']);
  expect(body.detail).toContain('home, which cannot be changed, drained or removed');
});
