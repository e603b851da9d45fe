/** Databases that Weir cannot use, and ways to one. */

import { spawn } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Log } from '../../server/base/telemetry/log.ts';
import { readUnfit } from '../../server/manage/api/cells/make.ts';
import { checkDatabase } from '../../server/operate/doctor/database.ts';
import { prepareDatabase } from '../../server/operate/primary/prepare.ts';
import { attachDatabase, migrateAttached, openCell } from '../../server/store/open.ts';
import { startTestApp } from '../helpers/app.ts';
import { freePort } from '../helpers/ports.ts';
import { emptyDatabase, type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { relayTo } from '../helpers/relay.ts';
import { signedRequest } from '../helpers/requests.ts';
import { settingsOf, someKey, temporaryDirectory } from '../helpers/settings.ts';
import { ofTest } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

/** The programs that check a database before they use it. Each resolves with its finding, or null. */
const lookers: Record<string, (conninfo: string) => Promise<string | null>> = {
  async start(conninfo) {
    const database = openCell(conninfo);
    const parts = {
      conninfo,
      database,
      settings: () => settings(conninfo),
      keys: [someKey],
      log: (() => {}) as unknown as Log,
      onAwaited: () => {},
    };
    const prepared = prepareDatabase(parts, new AbortController().signal);
    return prepared
      .then(
        () => null,
        ({ finding, fix }) => `${finding}; ${fix}`,
      )
      .finally(() => database.close());
  },
  async 'weir migrate'(conninfo) {
    const attached = await attachDatabase(settings(conninfo), () => {}, { joinSmaller: true });
    return migrateAttached(attached, settings(conninfo), () => {}).then(
      () => attached.detach().then(() => null),
      ({ finding, fix }) => `${finding}; ${fix}`,
    );
  },
  async doctor(conninfo) {
    const usual = { keys: [someKey], running: false, nowMs: Date.now };
    const checks = await checkDatabase({ settings: settings(conninfo), ...usual }, () => {});
    const found = checks.find(({ name, state }) => name === 'database' && state === 'problem');
    return found === undefined ? null : `${found.finding}; ${found.fix}`;
  },
  async 'a new cell'(conninfo) {
    const pool = openCell(conninfo);
    const self = { installation: 'x', number: 0, mark: 0 };
    return readUnfit(pool, self, { find: () => undefined }).finally(() => pool.close());
  },
};
const settings = (conninfo: string) =>
  settingsOf({ DATABASE_URL: conninfo, SECRETS_KEY: someKey, WORKERS: '1', AUTH_MODE: 'local' });
const everyone = Object.keys(lookers);

async function encoded(encoding: string): Promise<FreshDatabase> {
  const fresh = await emptyDatabase();
  const name = `${fresh.name}_${encoding.toLowerCase()}`;
  await fresh.sql(`create database ${name} encoding '${encoding}' template template0 locale 'C'`);
  onTestFinished(async () => {
    await fresh.sql(`drop database ${name} with (force)`);
    await fresh.drop();
  });
  return { ...fresh, name, conninfo: fresh.conninfo.replace(fresh.name, name) };
}

describe.each(['LATIN1', 'EUC_JP'])('a database in %s is refused', (encoding) => {
  test.each(everyone)('by %s', async (who) => {
    const { conninfo } = await encoded(encoding);
    expect(await lookers[who]!(conninfo)).toMatch(
      new RegExp(`encoding of the database is ${encoding}.*encoding 'UTF8'`),
    );
  });
});

describe.each(['UTF8', 'SQL_ASCII'])('a database in %s is taken', (encoding) => {
  test.each(everyone)('by %s', async (who) => {
    const { conninfo } = await encoded(encoding);
    expect(await lookers[who]!(conninfo)).toBe(null);
  });

  test('and keeps every character', async () => {
    const database = openCell((await encoded(encoding)).conninfo);
    const text = 'ü, 鐘, 🔔';
    const rows = await database.query({ text: 'select $1 as text', values: [text] }).finally(() => database.close());
    expect(rows).toEqual([{ text }]);
  });
});

describe.each(['transaction', 'statement'])('a PgBouncer that pools each %s is refused', (mode) => {
  test.each(everyone)('by %s', async (who) => {
    const fresh = await ofTest(emptyDatabase());
    const conninfo = await startPgBouncer(fresh, { pool_mode: mode });
    expect(await lookers[who]!(conninfo)).toMatch(/a pooler lets several connections share.*pool_mode = session/);
  });
});

test('a Weir behind a PgBouncer that pools sessions stores events and announces changes', async () => {
  const fresh = await ofTest(freshDatabase());
  const conninfo = await startPgBouncer(fresh, { pool_mode: 'session' });
  expect(await lookers.start!(conninfo)).toBe(null);
  const app = await ofTest(startTestApp({ SECRETS_KEY: someKey }, { ...fresh, conninfo }));
  const webhook = await app.addWebhook();
  const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret }));
  expect(response.status).toBe(202);
  const sessions = await fresh.sql<{ application_name: string }>(
    `select distinct application_name from pg_stat_activity where datname = '${fresh.name}' and application_name like 'weir%'`,
  );
  expect(sessions.map(({ application_name: name }) => name)).toEqual(
    expect.arrayContaining(['weir', 'weir-copy', 'weir-listener']),
  );
});

/** Runs PgBouncer with `settings` until the end of the test. Resolves with the URL of the database through it. */
async function startPgBouncer(
  database: Pick<FreshDatabase, 'conninfo' | 'name'>,
  settings: Record<string, string | number>,
): Promise<string> {
  // Another account than that of Postgres, whose socket is its own.
  const relay = await relayTo(database);
  const { port: serverPort, username } = new URL(relay.url);
  const directory = temporaryDirectory();
  await chmod(directory, 0o755);
  const port = await freePort();
  const file = join(directory, 'pgbouncer.ini');
  const given = { listen_addr: '127.0.0.1', listen_port: port, unix_socket_dir: '', auth_type: 'any', ...settings };
  await writeFile(
    file,
    `[databases]\n${database.name} = host=127.0.0.1 port=${serverPort} user=${username}\n[pgbouncer]\n${Object.entries(
      given,
    )
      .map(([name, value]) => `${name} = ${value}\n`)
      .join('')}`,
  );
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', [...account, file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
    relay.close();
  });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(said);
    return new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy() !== null));
      socket.on('error', () => resolve(false));
    });
  });
  return `postgres://weir@127.0.0.1:${port}/${database.name}?sslmode=disable`;
}
