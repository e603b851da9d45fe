/** A Postgres server with a TCP port, of Debian's package, whose processes, disk and standby a fault reaches. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { appendFile, chown, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { postgresServerFolder } from '../../../../server/operate/setup/debian.mjs';
import { type DatabasePool, openDatabase } from '../../../../server/store/connect/pool.ts';
import { lookUpUser } from '../../../../server/store/embedded/account.ts';
import { Link } from '../../../helpers/link.ts';
import { freePort } from '../../../helpers/ports.ts';
import { childrenOf } from '../../../helpers/processes.ts';
import { canMount, mountSmallDisk } from '../../../helpers/small-disk.ts';
import { until } from '../../../helpers/wait.ts';
import { kill } from '../../../helpers/weir.ts';
import type { DiskFault } from './disk-fault.ts';

const run = promisify(execFile);

/** Empty: this machine can run the servers. */
export const lackingForNemesis = postgresServerFolder() === undefined ? 'the server of Postgres from Debian' : '';

/** Small enough that a fault fills it within seconds. */
const DISK_SIZE = '400m';

const RESTART_MS = 500;

const settings = {
  max_connections: 200,
  shared_buffers: '32MB',
  max_wal_size: '128MB',
  min_wal_size: '32MB',
  unix_socket_directories: "''",
  listen_addresses: "'127.0.0.1'",
  autovacuum_naptime: 10,
  log_min_messages: 'warning',
  wal_retrieve_retry_interval: 500,
};

interface ServerParts {
  name: string;
  folder: string;
  disk: DiskFault | null;
  /** On a small disk of its own, where that is possible. */
  small: boolean;
  /** Environment of its programs, with that of the disk. */
  environment: Record<string, string>;
}

/** One program and its data. */
interface Place {
  data: string;
  port: number;
  child?: ChildProcess;
}

const isUp = ({ child }: Place) => child !== undefined && child.exitCode === null && child.signalCode === null;

export class PostgresServer {
  readonly parts: ServerParts;
  /** Stays when a standby is promoted: a way to the leader. */
  readonly port: number;
  /** For the queries of the nemesis. */
  readonly database: DatabasePool;
  #leader: Place;
  #standby: Place | null = null;
  #places = 0;
  /** False while a fault keeps it down. Otherwise it is started again when it ends, as by a supervisor. */
  #isWanted = true;
  #account: { uid: number; gid: number } | null = null;
  #unmount = () => {};
  readonly #front: Link;

  private constructor(parts: ServerParts, leader: Place, front: Link) {
    this.parts = parts;
    this.port = front.port;
    this.#leader = leader;
    this.#front = front;
    this.database = openDatabase(this.conninfo(), { connectionsMax: 4, applicationName: 'nemesis', onError: () => {} });
  }

  /** Creates it in its folder, with an empty database `weir`, and starts it. */
  static async create(parts: ServerParts): Promise<PostgresServer> {
    const leader = { data: join(parts.folder, 'data-0'), port: await freePort() };
    const server = new PostgresServer(parts, leader, await Link.to(leader.port));
    await mkdir(parts.folder);
    if (parts.small && canMount) server.#unmount = mountSmallDisk(parts.folder, DISK_SIZE, 0o755);
    if (process.getuid!() === 0) server.#account = (await lookUpUser('weir')) ?? (await lookUpUser('postgres'));
    if (server.#account !== null) await chown(parts.folder, server.#account.uid, server.#account.gid);
    await server.#run('initdb', '-D', leader.data, '-U', 'weir', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C');
    const lines = Object.entries(settings).map(([key, value]) => `${key} = ${value}\n`);
    await appendFile(join(leader.data, 'postgresql.conf'), lines.join(''));
    await server.start();
    await server.#queryLeader('create database weir');
    return server;
  }

  get name(): string {
    return this.parts.name;
  }

  conninfo(database = 'weir'): string {
    return `host=127.0.0.1 port=${this.port} user=weir dbname=${database} connect_timeout=5`;
  }

  get isUp(): boolean {
    return isUp(this.#leader);
  }

  /** Resolves when it accepts connections; starts it again when it ends before, as after kill -9 with sessions left. */
  async start(): Promise<void> {
    this.#isWanted = true;
    await until(() => {
      if (!this.isUp) this.#spawn(this.#leader);
      return this.#queryLeader('select 1').catch(() => null);
    });
  }

  /** Ends it by this signal and waits. */
  async end(signal: NodeJS.Signals): Promise<void> {
    this.#isWanted = false;
    const leader = this.#leader;
    const pids = await this.pids();
    for (const pid of pids) kill(pid, 'SIGCONT');
    for (const pid of signal === 'SIGKILL' ? pids : pids.slice(0, 1)) kill(pid, signal);
    await until(() => !isUp(leader));
  }

  /** The first process, then its children. */
  async pids(of: 'leader' | 'standby' = 'leader'): Promise<number[]> {
    const place = of === 'leader' ? this.#leader : this.#standby;
    if (place === null || !isUp(place)) return [];
    return [place.child!.pid!, ...(await childrenOf(place.child!.pid!))];
  }

  /** Adds a standby; resolves when it has every commit that was confirmed, and each later commit waits for it. */
  async addStandby(): Promise<void> {
    const standby = { data: join(this.parts.folder, `data-${++this.#places}`), port: await freePort() };
    await until(async () => {
      const copied = this.#run('pg_basebackup', '-D', standby.data, '-R', '-c', 'fast', ...this.#reached(this.#leader));
      return copied.then(
        () => true,
        // A fault ended the leader.
        () => rm(standby.data, { recursive: true, force: true }).then(() => false),
      );
    });
    this.#spawn(standby);
    await until(async () => {
      if (!isUp(standby)) this.#spawn(standby);
      const lines = [`alter system set synchronous_standby_names = '*'`, 'select pg_reload_conf()'];
      const waits = `select pg_logical_emit_message(true, 'nemesis', 'a commit that waits for the standby')`;
      const streams = `select 1 / count(*) from pg_stat_replication where state = 'streaming'`;
      for (const text of [streams, ...lines, waits])
        if ((await this.#queryLeader(text).catch(() => null)) === null) return false;
      return true;
    });
    this.#standby = standby;
  }

  /** kill -9 of the leader; its standby takes its place. False: there is no standby. */
  async promote(): Promise<boolean> {
    const [standby, leader] = [this.#standby, this.#leader];
    if (standby === null || !isUp(standby) || !this.isUp) return false;
    this.#standby = null;
    await this.end('SIGKILL');
    // A fault of the disk that both have may end it at any moment of the promotion.
    await until(async () => {
      if (!isUp(standby)) this.#spawn(standby);
      const text = `select case when pg_is_in_recovery() then pg_promote(true, 5) else true end as promoted`;
      const rows = await this.#query(standby, text).catch(() => []);
      return rows[0]?.promoted === true;
    });
    this.#leader = standby;
    await this.start();
    this.#front.target = standby.port;
    this.#front.reset();
    await rm(leader.data, { recursive: true, force: true });
    return true;
  }

  async remove(): Promise<void> {
    await this.parts.disk?.set('');
    await this.end('SIGKILL');
    for (const pid of await this.pids('standby')) kill(pid, 'SIGKILL');
    await this.database.close();
    this.#front.close();
    this.#unmount();
    await rm(this.parts.folder, { recursive: true, force: true });
  }

  #reached({ port }: Place): string[] {
    return ['-h', '127.0.0.1', '-p', String(port), '-U', 'weir'];
  }

  #queryLeader(text: string): Promise<Record<string, unknown>[]> {
    return this.#query(this.#leader, text);
  }

  async #query({ port }: Place, text: string): Promise<Record<string, unknown>[]> {
    const conninfo = `host=127.0.0.1 port=${port} user=weir dbname=postgres connect_timeout=5`;
    const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'nemesis', onError: () => {} });
    return database.query<Record<string, unknown>>({ text }).finally(() => database.close());
  }

  async #run(program: string, ...words: string[]): Promise<void> {
    await run(join(postgresServerFolder()!, program), words, { cwd: this.parts.folder, ...this.#account });
  }

  #spawn(place: Place): void {
    const { folder, environment } = this.parts;
    const words = ['-D', place.data, '-p', String(place.port)];
    const child = spawn(join(postgresServerFolder()!, 'postgres'), words, {
      cwd: folder,
      env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...this.#account,
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text) => void appendFile(join(folder, 'log'), text).catch(() => {}));
    child.once('exit', () => {
      if (this.#isWanted && (place === this.#leader || place === this.#standby))
        setTimeout(() => this.#isWanted && !isUp(place) && this.#spawn(place), RESTART_MS);
    });
    place.child = child;
  }
}
