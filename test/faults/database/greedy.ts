/** A program that takes the connections of a Postgres. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { until } from '../../helpers/wait.ts';

/**
 * Takes every free connection and prints `full`; from its next input on, takes those of Weir too and prints `taken`
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

/** Starts it; resolves when it has every free connection of the Postgres in this DATA_DIR. */
export async function takeConnections(dataDir: string) {
  const args = ['--input-type=module', '--eval', greedy, `${dataDir}/postgres`];
  const program = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(program, 'exit');
  let said = '';
  program.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  await until(() => said.includes('full'));
  return {
    /** Resolves when Weir has none. */
    async takeThoseOfWeir() {
      program.stdin.write('go');
      await until(() => said.includes('taken'));
    },
    async end() {
      program.kill('SIGKILL');
      await ended;
    },
  };
}
