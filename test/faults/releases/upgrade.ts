/** HUP to other settings and another build: new processes use them, and with incompatible ones the old processes continue to serve. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { commands } from '../../../server/cli/commands.ts';
import type { Chain } from '../../helpers/chain.ts';
import { runCommands } from '../../helpers/command.ts';
import type { Installation } from '../../helpers/installation.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { DRAINING } from '../../helpers/sender.ts';
import { someKey } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { made, webhooksOf } from '../../helpers/webhooks.ts';
import { ask, readiness } from '../../helpers/weir.ts';
import { expectNothingLost } from '../under-load.ts';

/** Two builds, of which Weir runs the first. */
export interface Releases {
  readonly one: Installation;
  /** Says `new` where the other one says `ok`. */
  readonly two: Installation;
  /** The next processes run this one. */
  use(name: 'one' | 'two'): Promise<void>;
}

/** Weir runs the second release after these. */
export function upgradeTests(chain: Chain, releases: Releases): void {
  /** Responses of the processes; each request goes to any of them. */
  async function statusesOf(): Promise<string[]> {
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(chain.weir.port, '/healthz')));
    return [...new Set(answers.map(({ body }) => (JSON.parse(body) as { status: string }).status))];
  }

  const post = (body: string) =>
    fetch(
      `http://127.0.0.1:${chain.weir.port}${chain.webhook.path}`,
      signedRequest({ secret: chain.webhook.secret, body }),
    );

  /** `weir reload` */
  const reload = () => runCommands(commands, chain.weir.dataDir, { DATA_DIR: chain.weir.dataDir }, ['reload']);

  /** Resolves after the primary has reached the database (every 300 ms) and informed its processes. */
  async function heartbeat(): Promise<void> {
    const text = `select query_start::text as at from pg_stat_activity
      where application_name = 'weir-listener' and datname = current_database()`;
    const read = async () => (await chain.weir.sql<{ at: string }>(text))[0]?.at;
    for (let i = 0; i < 2; i++) {
      const before = await read();
      await until(async () => (await read()) !== before);
    }
  }

  describe('settings', () => {
    test('changed in .env apply to new processes', async () => {
      expect((await post('x'.repeat(11))).status).toBe(202);
      await chain.set({ WEBHOOK_MAX_PAYLOAD_BYTES: 10, LOG_LEVEL: 'debug' });
      const { code, out } = await reload();
      expect([code, out]).toEqual([
        0,
        expect.stringMatching(
          /^2 processes replaced\.\nChanged settings: WEBHOOK_MAX_PAYLOAD_BYTES, LOG_LEVEL\.\nAll run /,
        ),
      ]);
      await until(() => chain.events('restarted').length > 0);
      expect(chain.events('restarted')).toMatchObject([{ replaced: 2 }]);
      expect(chain.events('settings_changed').at(-1)!.settings).toEqual(['WEBHOOK_MAX_PAYLOAD_BYTES', 'LOG_LEVEL']);
      const statuses = await Promise.all(Array.from({ length: 10 }, async () => (await post('x'.repeat(11))).status));
      expect(new Set(statuses)).toEqual(new Set([413]));
    });

    test('that need a restart are named by weir reload, and those beside them', async () => {
      const before = await chain.weir.servingPids();
      await chain.set({ METRICS_HOST: '0.0.0.0', RETENTION_DAYS: 31 });
      expect(await reload()).toMatchObject({
        code: 1,
        err: 'weir: METRICS_HOST has changed, which needs a restart of Weir; stop and start it, or set the earlier value and run: npx --no weir reload; also changed: WEBHOOK_MAX_PAYLOAD_BYTES, RETENTION_DAYS, LOG_LEVEL; nothing is replaced, and 2 processes continue to serve\n',
      });
      await chain.set();
      expect(await reload()).toMatchObject({
        code: 0,
        out: expect.stringContaining('\nChanged settings: WEBHOOK_MAX_PAYLOAD_BYTES, LOG_LEVEL.\n'),
      });
      expect((await chain.weir.servingPids()).filter((pid) => before.includes(pid))).toEqual([]);
    });

    test('WORKERS sets the number of processes; TTIN is kept while WORKERS does not change', async () => {
      chain.weir.signal('SIGTTIN');
      await until(async () => (await chain.weir.metric('weir_processes')) === 3);
      expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: 3 });
      await chain.set({ WORKERS: 1 });
      expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: 1 });
      expect(await chain.weir.servingPids()).toHaveLength(1);
      await chain.set({ WORKERS: 2 });
      expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: 2 });
      expect(await chain.weir.servingPids()).toHaveLength(2);
    });

    test.each([
      ['a bad value', { THREADS: 'many' }, 'THREADS is "many"; allowed: a whole number from 1 to 64'],
      [
        'settings of the primary',
        { HOST: '0.0.0.0', METRICS_HOST: '0.0.0.0', THREADS: 2 },
        'HOST, METRICS_HOST have changed, which needs a restart of Weir; stop and start it, or set the earlier value and run: npx --no weir reload',
      ],
      [
        'more connections than the database allows',
        { DB_POOL_MAX: 1000 },
        expect.stringMatching(/^the database allows \d+ connections, but WORKERS=2 and DB_POOL_MAX=1000 may open \d+;/),
      ],
    ])('%s: refused by name, and the old processes continue to serve', async (_, settings, reason) => {
      const before = await chain.weir.servingPids();
      await chain.set(settings);
      expect(await chain.restart()).toMatchObject({ event: 'restart_failed', reason, replaced: 0 });
      expect(await chain.weir.servingPids()).toEqual(before);
    });
  });

  test('a webhook changed while a process starts is current in that process', async () => {
    await chain.set({ WORKERS: 1 });
    const { path, secret } = await chain.weir.addWebhook();
    // Its caches are filled and it listens, but it has not reported that yet.
    await releases.one.replace('server/operate/process/app.ts', (built) =>
      built.replace(
        /^\treturn \{$/m,
        "console.log('filled'); await new Promise((go) => setTimeout(go, 1_000)); return {",
      ),
    );
    const restarted = chain.restart();
    await until(() => chain.events('process_output').some(({ line }) => line === 'filled'));
    const id = path.split('/').at(-1)!;
    made(await webhooksOf(chain.weir, [someKey]).update(id, { enabled: false }));
    expect(await restarted).toMatchObject({ event: 'restarted', replaced: 1 });
    await releases.one.repair();
    // The process trusts its caches after the next heartbeat of the database.
    await heartbeat();
    const answer = await fetch(`http://127.0.0.1:${chain.weir.port}${path}`, signedRequest({ secret }));
    expect(answer.status).toBe(410);
    await chain.configure();
  });

  describe('another build', () => {
    test('on disk keeps running processes ready before weir migrate', async () => {
      const file = join(releases.one.directory, 'dist/server/store/migrations/9999_later.sql');
      await writeFile(file, 'select 1;');
      expect(await readiness(chain.weir.port)).toMatchObject({ status: 200, checks: { migrations: 'ok' } });
      await rm(file);
    });

    test('is served after HUP without a failed request', async () => {
      expect(await statusesOf()).toEqual(['ok']);
      const before = await chain.weir.servingPids();
      const sender = await chain.startLoad(DRAINING);
      const manifest = join(releases.two.directory, 'dist/package.json');
      const facts = JSON.parse(await readFile(manifest, 'utf8'));
      await writeFile(manifest, JSON.stringify({ ...facts, commit: '0123456789ab' }));
      await releases.use('two');
      const [name, next] = [`${facts.version} (${facts.commit})`, `${facts.version} (0123456789ab)`];
      const { code, out } = await reload();
      expect([code, out]).toEqual([
        0,
        `2 processes replaced.\nNo setting has changed.\nThe processes run ${next}, and the primary ${name} until Weir is restarted.\n`,
      ]);
      await until(() => chain.events('restarted').length > 0);
      expect(chain.events('restarted')).toMatchObject([{ replaced: 2, build: next }]);
      expect(chain.events('restarting')).toMatchObject([{ build: name }]);
      const { body } = await ask(chain.weir.metricsPort, '/metrics');
      const commits = [...body.matchAll(/^weir_build_info\{.*commit="([^"]+)".*\} 1$/gm)].map(([, commit]) => commit);
      expect(commits).toEqual([facts.commit, '0123456789ab']);
      const builds = await until(async () => {
        const rows = await chain.weir.sql<{ name: string }>(
          `select entry -> 'target' ->> 'name' as name from audit_log where action = 'build.start' order by number`,
        );
        return rows.length > 1 && rows;
      });
      expect(builds).toEqual([{ name }, { name: next }]);
      await sender.acceptMore(300);
      await sender.stop();
      expect(await statusesOf()).toEqual(['new']);
      expect((await chain.weir.servingPids()).filter((pid) => before.includes(pid))).toEqual([]);
      await expectNothingLost(chain, sender, { losses: 'of new connections' });
    });

    test('can have settings that the running primary does not know', async () => {
      // The bundler renames one of two functions with the same name.
      const rows = (built: string) =>
        built.replace(/limitsSettings = \{(?=[\s\S]*?\b(count(?:\$\d+)?)\()/, "$&\n    NEW_LIMIT: $1(5, 1, 9, ''),");
      await releases.two.replace('server/base/settings/rows/receiving.ts', rows);
      await releases.two.replace('server/operate/process/app.ts', (built) =>
        built.replace(
          'const { settings } = order;',
          '$&\n    if (settings.NEW_LIMIT !== 7) throw new Error(settings.NEW_LIMIT);',
        ),
      );
      expect(await chain.restart()).toMatchObject({ event: 'restart_failed', reason: '5' });
      await chain.set({ NEW_LIMIT: 70 });
      expect(await chain.restart()).toMatchObject({
        event: 'restart_failed',
        reason: 'NEW_LIMIT is "70"; allowed: a whole number from 1 to 9',
      });
      await chain.set({ NEW_LIMIT: 7 });
      expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: 2 });
      await releases.two.repair();
    });

    test('with a migration is refused before weir migrate', async () => {
      await releases.two.replace('server/store/migrate.ts', (built) =>
        built.replace('return readdirSync(folder)', "return [...readdirSync(folder), '9999_later.sql']"),
      );
      expect(await chain.restart()).toMatchObject({
        event: 'restart_failed',
        reason:
          'the database lacks migration 9999_later.sql of this build; run: npx --no weir migrate, then npx --no weir reload',
        kept: 2,
      });
      await chain.weir.sql(`insert into schema_migrations (version, name) values (9999, 'later')`);
      expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: 2 });
      await chain.weir.sql('delete from schema_migrations where version = 9999');
      await releases.two.repair();
      // Until then, the migration that the processes know is missing, which readyz reports.
      expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: 2 });
    });

    test('with other messages is refused', async () => {
      await releases.two.replace('server/operate/process/process.ts', (built) =>
        built.replace(/protocol: \d+/, 'protocol: 99'),
      );
      expect(await chain.restart()).toMatchObject({
        event: 'restart_failed',
        reason: expect.stringMatching(/^the build on disk cannot run under this primary \(protocol 99, here \d+\);/),
        kept: 2,
      });
      await releases.two.repair();
    });
  });
}
