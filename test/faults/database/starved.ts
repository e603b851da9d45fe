/** A Postgres without a free connection: Weir refuses with 503 while it has none, and recovers by itself. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { readiness } from '../../helpers/weir.ts';

/**
 * Another program: takes every free connection and prints `full`; from its next input on, takes those of Weir too and prints `taken`
 * while Weir has none. Its end releases all.
 */
const greedy = `
  import pg from 'pg';
  const held = [];
  const take = async () => {
    const client = new pg.Client({ host: process.argv[1], user: 'weir', database: 'weir' });
    client.on('error', () => {});
    return client.connect().then(() => held.push(client), (error) => {
      if (error.code !== '53300') throw error;
      return 0;
    });
  };
  while (await take());
  console.log('full');
  await new Promise((go) => process.stdin.once('data', go));
  for (;;) {
    const { rows } = await held[0].query(
      "select pg_terminate_backend(pid) from pg_stat_activity " +
      "where application_name like 'weir%' and application_name <> 'weir-test' and backend_type = 'client backend'");
    while (await take());
    if (rows.length === 0) console.log('taken');
    // A session that was ended gives its connection back later, and Weir may be first.
    await new Promise((again) => setTimeout(again, 50));
  }`;

export function starvedTests(chain: Chain): void {
  test('a Postgres whose connections another program has taken', async () => {
    const { weir } = chain;
    const sender = await chain.startLoad({ lanes: 8, first: 100 });
    const args = ['--input-type=module', '--eval', greedy, `${weir.dataDir}/postgres`];
    const other = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = once(other, 'exit');
    let said = '';
    other.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    try {
      await until(() => said.includes('full'));
      // Connections that are open stay in use.
      await sender.acceptMore(100);
      expect(sender.refusals).toEqual([]);

      other.stdin.write('go');
      await until(() => said.includes('taken'));
      await until(async () => (await weir.metric('weir_database_up')) === 0);
      const before = sender.refusals.length;
      await until(() => sender.refusals.length > before + 20);
      for (const { status, code, retryAfter } of sender.refusals) {
        expect([status, code]).toEqual([503, 'database_unavailable']);
        expect(Number(retryAfter)).toBeGreaterThanOrEqual(1);
      }
      expect(await readiness(weir.port)).toMatchObject({ status: 503, checks: { database: 'failing' } });
      await until(() => chain.events('database_down').length > 0);
    } finally {
      other.kill('SIGKILL');
      await ended;
    }
    await sender.acceptMore(200);
    await sender.stop();
    await until(async () => (await readiness(weir.port))?.status === 200);
    expect(sender.losses).toEqual([]);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
  });
}
