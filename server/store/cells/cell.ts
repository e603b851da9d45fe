/** One cell as a process knows it: its database, and whether it can be used. */
import { probeCommit } from '../commit-probe.ts';
import { describeConninfo, withoutSecrets } from '../connect/conninfo.ts';
import type { Database } from '../connect/pool.ts';
import { isOutage, oneLine, POOL_TIMEOUT } from '../connect/unavailable.ts';
import {
  appliedVersions,
  type MigrateOptions,
  type Migration,
  migrate,
  pendingOf,
  versionProblem,
} from '../migrate.ts';
import { type CellRow, type CellSelf, readSelf } from '../queries/cells/cells.ts';
import { prepareNode } from '../queries/cells/citus.ts';
import type { CellAddress } from './address.ts';
import { CellTrouble } from './cell-trouble.ts';
import { guardedDatabase } from './guarded-database.ts';

const CHECK_TIMEOUT_MS = 2_000;

/** How a process opens its cells. */
export interface CellOptions {
  /** Keys that seal connection strings, current first. */
  keys: readonly Buffer[];
  open: (conninfo: string) => Database;
  /** Called with the reason when the trouble of a cell begins (see CellTrouble.trouble), and with null when it ends. */
  onTrouble?: (cell: Cell, reason: string | null) => void;
  /** Migrations; default: those of this release. */
  files?: readonly Migration[] | undefined;
}

/** Home, another Postgres server, or a schema of home's Citus cluster. */
export class Cell extends CellTrouble {
  /** 0: home. */
  readonly number: number;
  readonly address: CellAddress;
  /** Refuses at once while the cell is away. */
  readonly database: Database;
  /** For statements that create and drop tables. */
  readonly tables: Database;
  readonly #pool: Database;
  readonly #self: CellSelf | null;
  readonly #files: readonly Migration[] | undefined;
  #row: CellRow | null = null;
  #probing: Promise<void> | null = null;
  /** The highest mark that was seen in the cell or at home. */
  #mark = 0;
  /** A cell on Citus: its node has what Weir needs there. */
  #prepared = false;
  /** Whether its schema has the migrations of this release; null: not known since it was away. */
  #isCurrent: boolean | null = null;

  private constructor(
    number: number,
    address: CellAddress,
    self: CellSelf | null,
    { open, onTrouble = () => {}, files }: Omit<CellOptions, 'keys'>,
  ) {
    super((reason) => onTrouble(this, reason));
    const { kind, conninfo, tables } = address;
    const pool = open(conninfo || 'host=/nonexistent');
    this.number = number;
    this.address = address;
    this.#pool = pool;
    this.#self = self;
    this.#files = files;
    this.database = number === 0 ? pool : guardedDatabase(this, pool);
    this.tables = kind === 'citus' ? open(tables) : this.database;
  }

  static home(conninfo: string, database: Database): Cell {
    const address: CellAddress = { kind: 'postgres', conninfo, tables: conninfo, node: null, fault: null };
    return new Cell(0, address, null, { open: () => database });
  }

  static open(row: CellRow, self: CellSelf, options: CellOptions, address: CellAddress): Cell {
    const cell = new Cell(row.number, address, self, options);
    cell.update(row);
    if (address.fault !== null) cell.setAway(address.fault);
    return cell;
  }

  get conninfo(): string {
    return this.address.conninfo;
  }

  get name(): string {
    return this.#row?.name ?? 'home';
  }

  get state(): CellRow['state'] {
    return this.#row?.state ?? 'active';
  }

  /** Whether new events of a webhook may be directed to it. */
  get isFit(): boolean {
    return this.state === 'active' && this.trouble === null;
  }

  /** Whether it is not used before `migrate`, because its schema is of an earlier release. */
  get outdated(): boolean {
    return this.#isCurrent === false;
  }

  /** When it was added, Unix milliseconds. */
  get sinceMs(): number {
    return this.#row?.createdAtMs ?? 0;
  }

  /** Whether this object is the cell of a row, with the same connection. */
  isOf({ id }: CellRow, { conninfo, fault }: CellAddress): boolean {
    return this.#row?.id === id && conninfo === this.conninfo && fault === this.address.fault;
  }

  update(row: CellRow): void {
    this.#row = row;
    this.#mark = row.mark;
  }

  /** Finds out whether the cell can be used. */
  async check(): Promise<void> {
    // A cell that is being added has no schema yet, and is not used.
    if (this.number === 0 || this.conninfo === '' || this.state === 'adding') return;
    try {
      await this.prepare();
      const found = await readSelf(this.#pool, CHECK_TIMEOUT_MS);
      this.setAway(this.#whyNotThisCell(found) ?? (await this.#whyNotItsSchema()));
      if (this.away === null) this.#mark = Math.max(this.#mark, found!.mark);
    } catch (error) {
      // Slow statements use all connections of the pool, which says nothing about the cell.
      if ((error as Error).message === POOL_TIMEOUT) return;
      this.#prepared = false;
      this.#isCurrent = null;
      this.setAway(oneLine(withoutSecrets((error as Error).message, this.conninfo)));
    }
    if (this.failure !== null) await this.probe();
  }

  /** Migrates the schema of the cell to this release, and checks it. Returns the names of the applied migrations. Rejects as `migrate`. */
  async migrate(options?: MigrateOptions): Promise<string[]> {
    const applied = await migrate(this.#pool, { files: this.#files, ...options });
    await this.check();
    return applied;
  }

  /** Reports that the server refused an event. A probe finds out now whether the cell stores any, and `check` repeats it. */
  eventRefused(sqlState: string): void {
    if (this.number !== 0 && this.failure === null && isOutage(sqlState)) void this.probe();
  }

  /** Finds out whether it stores events, by a trial commit. Never rejects. */
  probe(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = null;
    });
    return this.#probing;
  }

  async #probe(): Promise<void> {
    if (this.away !== null) return;
    try {
      await probeCommit(this.#pool, Date.now(), CHECK_TIMEOUT_MS);
      this.setFailure(null);
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      // An error of the connection is found by `check`, and a partition is created by the maintenance.
      if (code !== undefined) this.setFailure(isOutage(code) ? { sqlState: code, reason: oneLine(message) } : null);
    }
  }

  /** Creates what a cell on Citus needs on its node. Rejects when the node does not answer. */
  async prepare(): Promise<void> {
    const { node } = this.address;
    if (node !== null && !this.#prepared) await prepareNode(this.#pool, this.number, node);
    this.#prepared = true;
  }

  /** Takes the cell away until the next `check`: a server that comes back may be another one. */
  connectionLost(reason: string): void {
    if (this.number !== 0) this.setAway(oneLine(withoutSecrets(reason, this.conninfo)));
  }

  async close(): Promise<void> {
    await this.#pool.close();
    if (this.tables !== this.database) await this.tables.close();
  }

  #whyNotThisCell(found: CellSelf | null): string | null {
    const { installation } = this.#self!;
    if (found === null && this.address.kind === 'citus') return 'Citus has moved it to another node';
    if (found === null || found.installation !== installation || found.number !== this.number)
      return `the database at ${describeConninfo(this.conninfo)} is not cell ${this.number} of this installation`;
    if (found.mark < this.#mark) return 'it was restored from a backup, or another server answers';
    return null;
  }

  async #whyNotItsSchema(): Promise<string | null> {
    if (this.address.kind === 'citus' || this.#isCurrent === true) return null;
    const applied = await appliedVersions(this.#pool);
    this.#isCurrent = pendingOf(applied, this.#files).length === 0;
    if (this.#isCurrent) return null;
    const problem = versionProblem(applied, 'database', this.#files);
    return problem?.message ?? 'its schema is of an earlier release, and is about to be migrated';
  }
}
