/** One Weir of the run, at one port and DATA_DIR: it is killed and started again, and its way to Postgres and Redis has links. */
import { appendFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Overrides } from '../../../helpers/app.ts';
import type { Link } from '../../../helpers/link.ts';
import { look } from '../../../helpers/processes.ts';
import { until } from '../../../helpers/wait.ts';
import { kill, startWeir, type Weir } from '../../../helpers/weir.ts';
import { Client, type Reply } from '../clients/http.ts';
import type { History } from '../history.ts';
import type { Draw } from '../plan.ts';
import type { DiskFault } from './disk-fault.ts';

/** As a supervisor restarts it. */
const RESTART_MS = 700;
/** DRAIN_SECONDS and the steps around it, on a busy machine. */
const STOP_MAX_MS = 40_000;

export interface InstanceParts {
  number: number;
  settings: Overrides;
  dataDir: string;
  port: number;
  /** How the nemesis reaches home. */
  conninfo: string;
  databaseLink: Link;
  redisLink: Link;
  disk: DiskFault | null;
  /** Null: it has no spool. */
  spoolDir: string | null;
  /** Its weir.js, through a link to the present build. */
  entry: string;
  history: History;
}

export class Instance {
  readonly parts: InstanceParts;
  readonly client: Client;
  weir!: Weir;
  /** Log lines of those that have ended. */
  readonly earlierLines: string[] = [];
  #expected = false;
  #starting: Promise<void> | undefined;
  #ending: Promise<void> | undefined;

  constructor(parts: InstanceParts) {
    this.parts = parts;
    this.client = new Client(parts.port);
  }

  /** False while a fault keeps it down. */
  get isUp(): boolean {
    const child = this.weir?.child;
    const runs = child !== undefined && child.exitCode === null && child.signalCode === null;
    return runs && this.#starting === undefined && !this.#expected;
  }

  /** Starts it, unless it runs; resolves when it listens. */
  async start(): Promise<void> {
    await this.#ending;
    if (this.isUp) return;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
  }

  /** The end of it that a fault causes. @param all also its processes at once @param signal TERM ends in time */
  async end(signal: 'SIGKILL' | 'SIGTERM', all = false): Promise<void> {
    if (this.isUp) this.#ending = this.#end(signal, all);
    await this.#ending;
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM', all: boolean): Promise<void> {
    this.#expected = true;
    const processes = all ? await this.weir.servingPids() : [];
    for (const pid of [this.weir.pid, ...processes]) kill(pid, signal);
    const code = await Promise.race([this.weir.ended, delay(STOP_MAX_MS, null, { ref: false })]);
    if (code === null) {
      this.parts.history.observe('TERM does not end Weir', `instance ${this.parts.number}`);
      kill(this.weir.pid, 'SIGKILL');
    } else if (signal === 'SIGTERM' && code !== 0)
      this.parts.history.observe('Weir ends by TERM with an error', `exit ${code}: ${this.#tail()}`);
    await this.weir.ended;
  }

  /** Bytes after the last record of files in the spool, as of a write that a crash cut. */
  async tearSpool(draw: Draw): Promise<void> {
    const { spoolDir } = this.parts;
    if (spoolDir === null) return;
    const files = await readdir(spoolDir, { recursive: true, withFileTypes: true });
    for (const file of files.filter((each) => each.isFile() && /\.(open|draining)$/.test(each.name)))
      if (draw.chance(0.7)) {
        const torn = Buffer.alloc(draw.between(1, 3_000), draw.between(0, 255));
        // The disk may be full.
        await appendFile(join(file.parentPath, file.name), torn).catch(() => {});
      }
  }

  /** Throws without a response. */
  ready(): Promise<Reply> {
    return this.client.send({ method: 'GET', path: '/readyz', timeoutMs: 3_000 });
  }

  async #start(): Promise<void> {
    const { settings, dataDir, port, conninfo, entry, history, number } = this.parts;
    if (this.weir !== undefined) {
      this.earlierLines.push(...this.weir.lines);
      await this.weir.forget();
    }
    const given = { ...settings, DATA_DIR: dataDir, PORT: port };
    // As a supervisor: a fault may make a start fail, and processes of a killed primary hold the port until they have finished.
    this.weir = await until(() =>
      startWeir(given, { conninfo, entry }).catch((error: Error) => {
        history.note(error.message);
        this.earlierLines.push(...error.message.split('\n'));
        return null;
      }),
    );
    this.#expected = false;
    const { weir } = this;
    history.note(`instance ${number} listens, pid ${weir.pid}`);
    void weir.ended.then(async (code) => {
      history.note(`instance ${number} ended: ${code}`);
      if (this.#expected) return;
      history.observe('the primary ended by itself', `${code}: ${this.#tail()}`);
      await delay(RESTART_MS);
      await this.start();
    });
  }

  async stop(): Promise<void> {
    this.client.close();
    const processes = this.isUp ? await this.weir.servingPids() : [];
    await this.end('SIGTERM');
    const left = (await Promise.all(processes.map(look))).flatMap((seen) => seen ?? []);
    if (left.length > 0) this.parts.history.observe('a process is left', left.map(({ command }) => command).join());
    await this.weir?.stop();
    this.parts.databaseLink.close();
    this.parts.redisLink.close();
  }

  #tail(): string {
    return [...this.weir.lines.slice(-3), this.weir.stderr()].join(' | ').slice(-500);
  }
}
