/** An installation with cells: further databases on the run's Postgres, added by the command. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log } from '../../server/base/telemetry/log.ts';
import { runCells } from '../../server/operate/primary/work.ts';
import { Cells } from '../../server/store/cells/cells.ts';
import { openDatabase } from '../../server/store/connect/pool.ts';
import { openCell } from '../../server/store/open.ts';
import { derivedKeys, loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import { signIn, TestAgent } from './agents.ts';
import { type Overrides, startTestApp, type TestApp, type TestWebhook } from './app.ts';
import { type CommandResult, weirWith } from './command.ts';
import { addPerson, type TestPerson } from './people.ts';
import { emptyDatabase, type FreshDatabase } from './postgres.ts';
import { someKey } from './settings.ts';

export interface CellApp extends TestApp {
  /** The databases of the cells, from number 1 on. */
  cells: FreshDatabase[];
  /** The cells as a primary knows them; its work for them runs. */
  primary: Cells;
  administrator: TestPerson;
  /** Runs `weir ARGS` on this machine. */
  weir(...args: string[]): Promise<CommandResult>;
  /** Runs `weir ARGS --json`; throws when it fails. */
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  json(...args: string[]): Promise<any>;
  /** Adds a webhook in a cell, with a secret. */
  webhookIn(cell: number, ...more: string[]): Promise<TestWebhook>;
  /** Adds an agent that is subscribed to these webhooks, and signs it in. */
  agentOf(webhooks: readonly TestWebhook[], ...more: string[]): Promise<TestAgent>;
}

/** @param count cells beside home */
export async function startCellApp(count: number, overrides: Overrides = {}): Promise<CellApp> {
  const app = await startTestApp({ SECRETS_KEY: someKey, RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000, ...overrides });
  const cells = await Promise.all(Array.from({ length: count }, emptyDatabase));
  const run = (...args: string[]) => weirWith(app, { SECRETS_KEY: someKey }, ...args);
  const json = async (...args: string[]) => {
    const { code, out, err } = await run(...args, '--json');
    if (code !== 0) throw new Error(`weir ${args.join(' ')} ended with ${code}: ${err}`);
    return JSON.parse(out);
  };
  for (const { conninfo, name } of cells) {
    const file = join(mkdtempSync(join(tmpdir(), 'weir-cell-')), name);
    writeFileSync(file, conninfo, { mode: 0o600 });
    await json('cell', 'add', '--database-file', file, '--name', name);
  }
  const home = openDatabase(app.conninfo, { connectionsMax: 2, applicationName: 'weir-primary', onError: () => {} });
  const primary = new Cells({
    home,
    conninfo: app.conninfo,
    keys: derivedKeys(loadSecretsKeys(app.settings), 'cells'),
    open: openCell,
  });
  await primary.load();
  primary.watch();
  const stopWork = runCells(primary, (() => {}) as unknown as Log, () => app.settings.RETENTION_DAYS);
  return {
    ...app,
    cells,
    primary,
    administrator: await addPerson(app, 'administrator'),
    weir: run,
    json,
    async webhookIn(cell, ...more) {
      const secret = 'a secret between friends';
      const name = `w ${randomUUID()}`;
      const { id } = await json('webhook', 'add', '--name', name, '--cell', String(cell), '--secret', secret, ...more);
      return { id, url: `${app.url}/in/${id}`, path: `/in/${id}`, secret };
    },
    async agentOf(webhooks, ...more) {
      const given = webhooks.flatMap(({ id }) => ['--webhook', id]);
      const agent = await json('agent', 'add', '--name', `a ${randomUUID()}`, ...given, ...more);
      return new TestAgent(app.url, agent, await signIn(app, agent.credential));
    },
    async stop() {
      await stopWork();
      await primary.close();
      await home.close();
      await app.stop();
      for (const cell of cells) await cell.drop();
    },
  };
}
