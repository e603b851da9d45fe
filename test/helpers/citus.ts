/** A Citus cluster of three nodes for a test file, where the Postgres of this machine offers the extension. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chown, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { postgresServerFolder } from '../../server/operate/setup/debian.mjs';
import { type Database, openDatabase } from '../../server/store/connect/pool.ts';
import { lookUpUser } from '../../server/store/embedded/account.ts';
import { freePort } from './ports.ts';
import { PATIENCE_MS, until } from './wait.ts';
import { makeDataDir } from './weir.ts';

const run = promisify(execFile);
const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };

/** What this machine lacks for the tests on Citus; the empty string when it lacks nothing. */
export function lackingForCitus(): string {
  if (process.getuid?.() !== 0) return 'root, to start servers as another user';
  const folder = postgresServerFolder();
  const extension = folder?.replace('/lib/', '/share/').replace(/bin$/, 'extension/citus.control');
  return extension !== undefined && existsSync(extension) ? '' : 'the extension Citus in the Postgres of Debian';
}

export interface CitusNode {
  port: number;
  /** A pool of the superuser. */
  database: Database;
  /** Ends the server at once, as a crash does. */
  kill(): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
}

export interface CitusCluster {
  /** URL of the database on the coordinator. */
  url: string;
  /** The coordinator first; it has shards too. */
  nodes: CitusNode[];
  /** The node that has a schema. */
  ownerOf(schema: string): Promise<CitusNode>;
  /** Moves a schema to the next node, while others write. Returns it. */
  moveOn(schema: string): Promise<CitusNode>;
  stop(): Promise<void>;
}

export async function startCitus(): Promise<CitusCluster> {
  const directory = await makeDataDir();
  const nodes: CitusNode[] = [];
  const stop = async () => {
    for (const node of nodes) {
      await node.kill();
      await node.database.close();
    }
    await rm(directory, { recursive: true, force: true });
  };
  try {
    for (const name of ['coordinator', 'one', 'two']) nodes.push(await startNode(directory, name));
  } catch (error) {
    await stop();
    throw error;
  }
  const [{ database, port }, ...workers] = nodes as [CitusNode, ...CitusNode[]];
  const ask = (text: string) => database.query<{ port: number }>({ text, timeoutMs: PATIENCE_MS });
  await ask(`select citus_set_coordinator_host('127.0.0.1', ${port})`);
  for (const worker of workers) await ask(`select citus_add_node('127.0.0.1', ${worker.port})`);
  await ask(`select citus_set_node_property('127.0.0.1', ${port}, 'shouldhaveshards', true)`);
  const ownerOf = async (schema: string) => {
    const [row] = await ask(
      `select distinct nodeport as port from citus_shards where table_name::text like '${schema}.%'`,
    );
    return nodes.find((node) => node.port === row!.port)!;
  };
  return {
    url: `postgres://weir@127.0.0.1:${port}/weir`,
    nodes,
    ownerOf,
    async moveOn(schema) {
      const next = nodes[(nodes.indexOf(await ownerOf(schema)) + 1) % nodes.length]!;
      await ask(`select citus_schema_move('${schema}', '127.0.0.1', ${next.port})`);
      return next;
    },
    stop,
  };
}

async function startNode(directory: string, name: string): Promise<CitusNode> {
  const account = ((await lookUpUser('weir')) ?? (await lookUpUser('postgres')))!;
  await chown(directory, account.uid, account.gid);
  const data = join(directory, name);
  const binaries = postgresServerFolder()!;
  const as = { cwd: '/', env, uid: account.uid, gid: account.gid };
  const initdb = ['--pgdata', data, '--username', 'weir', '--auth', 'trust', '--encoding', 'UTF8', '--no-sync'];
  await run(join(binaries, 'initdb'), initdb, as);
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: directory,
    shared_preload_libraries: 'citus',
    wal_level: 'logical',
    max_connections: 200,
    max_prepared_transactions: 200,
    timezone: 'UTC',
  };
  const options = Object.entries(settings).flatMap(([option, value]) => ['-c', `${option}=${value}`]);
  const open = (database: string) =>
    openDatabase(`host=127.0.0.1 port=${port} user=weir dbname=${database}`, {
      connectionsMax: 2,
      applicationName: 'weir-test',
      onError: () => {},
    });
  const answers = async (database: Database) =>
    database.query({ text: 'select 1' }).then(
      () => true,
      () => false,
    );
  let child: ChildProcess;
  const launch = async (database: Database) => {
    child = spawn(join(binaries, 'postgres'), ['-D', data, ...options], { ...as, stdio: 'ignore' });
    await until(() => answers(database));
  };
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGQUIT');
    await exit;
  };
  const admin = open('postgres');
  await launch(admin);
  await admin.query({ text: 'create database weir' });
  await admin.close();
  const database = open('weir');
  await database.query({ text: 'create extension citus' });
  return { port, database, kill, start: () => launch(database) };
}
