/** Adds, changes and removes cells, with audit entries. A change resolves once every process knows it. */
import { randomUUID } from 'node:crypto';
import { invalid, problem, type Result } from '../../../base/http/problem.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import { ON_CITUS } from '../../../store/cells/address.ts';
import type { Cell } from '../../../store/cells/cell.ts';
import type { Cells } from '../../../store/cells/cells.ts';
import { copyTo } from '../../../store/cells/copy.ts';
import { cellConninfo, describeConninfo } from '../../../store/connect/conninfo.ts';
import type { Database, DatabasePool, Query } from '../../../store/connect/pool.ts';
import { DatabaseUnavailable, oneLine } from '../../../store/connect/unavailable.ts';
import {
  type CellRow,
  type CellSelf,
  deleteCell,
  insertCell,
  isEmpty,
  lockCell,
  nameSelf,
  readCells,
  readSelf,
  updateCell,
} from '../../../store/queries/cells/cells.ts';
import { dropCitusSchema, readCitusFault } from '../../../store/queries/cells/citus.ts';
import { noteEverything } from '../../../store/queries/cells/copies.ts';
import { hasWebhooks } from '../../../store/queries/cells/webhook-moves.ts';
import { seal } from '../../../store/secrets/seal.ts';
import type { ChangeParts } from '../change.ts';
import { createCitusCell, prepareTables, readUnfit, said, tryServer } from './make.ts';

const ASK_TIMEOUT_MS = 5_000;

export interface CellParts extends ChangeParts {
  cells: Cells;
  /** Key derived for connection strings. */
  key: Buffer;
}

export class CellService {
  readonly #parts: CellParts;
  readonly #actor: Actor;
  readonly #isLocal: boolean;

  /** @param isLocal the command of an operator on the machine of Weir: any connection string is allowed */
  constructor(parts: CellParts, actor: Actor, isLocal: boolean) {
    this.#parts = parts;
    this.#actor = actor;
    this.#isLocal = isLocal;
  }

  /**
   * Adds a cell. Resolves with its number once it is active. The next attempt uses what a failed one left in the server.
   * @param database connection string; null: a schema on home's Citus cluster
   */
  async add(name: string, database: string | null): Promise<Result<number>> {
    const { cells } = this.#parts;
    await cells.load();
    const home = cells.numbered(0);
    if (database === null) {
      const unfit = await readCitusFault(home.database);
      if (unfit !== null) return invalid('/citus', unfit);
      return this.#insert(name, ON_CITUS, (self, number) => createCitusCell(home, self, number));
    }
    return this.#withServer(database, { name }, async (pool, conninfo) => {
      const unfit = await readUnfit(pool, await this.#self(), cells);
      if (unfit !== null) return invalid('/database', unfit);
      return this.#insert(name, conninfo, (self, number) => prepareTables(pool, self, number));
    });
  }

  /**
   * Runs `work` with a server that a user names. A refusal gets an audit entry, because the user may name any server of the network.
   * @param work gets the pool, and the connection string as it is stored
   */
  async #withServer<T>(
    database: string,
    { name, number }: { name: string; number?: number },
    work: (pool: DatabasePool, conninfo: string) => Promise<Result<T>>,
  ): Promise<Result<T>> {
    const read = cellConninfo(database, this.#isLocal);
    const result =
      'fault' in read ? invalid('/database', read.fault) : await tryServer(read.conninfo, this.#isLocal, work);
    if (result.kind === 'problem') {
      const address = describeConninfo('fault' in read ? database : read.conninfo);
      await homeOf(this.#parts.cells).transaction((query) =>
        this.#record(query, 'refuse', number ?? null, name, { address, ...result.members }),
      );
    }
    return result;
  }

  /** @param text the connection string, or ON_CITUS; stored encrypted */
  async #insert(
    name: string,
    text: string,
    prepare: (self: CellSelf, number: number) => Promise<void>,
  ): Promise<Result<number>> {
    const { cells, key } = this.#parts;
    const home = homeOf(cells);
    const self = await this.#self();
    const id = randomUUID();
    const address = text === ON_CITUS ? ON_CITUS : describeConninfo(text);
    const made = await this.#change(async (query) => {
      if ((await lockCell(query, name)) !== undefined) return problem('cell_name_taken');
      const number = await insertCell(query, { id, name, sealed: seal(Buffer.from(text), key, id) });
      await noteEverything(query, number);
      await this.#record(query, 'add', number, name, { address });
      return { kind: 'done', value: number };
    });
    if (made.kind === 'problem') return made;
    try {
      await prepare(self, made.value);
      await cells.load();
      const cell = cells.numbered(made.value);
      await cell.prepare();
      await copyTo(cell, home);
    } catch (error) {
      const left = await this.#forget(made.value, id, text === ON_CITUS).then(
        () => '',
        () => ` Remove cell ${made.value} before another try.`,
      );
      return text === ON_CITUS
        ? invalid('/citus', `Citus cannot have the cell: ${(error as Error).message}.${left}`)
        : invalid('/database', said(error, text, this.#isLocal) + left);
    }
    return this.#change(async (query) => {
      if ((await lockCell(query, made.value))?.id !== id)
        return invalid(text === ON_CITUS ? '/citus' : '/database', 'The cell was removed while it was added.');
      await updateCell(query, made.value, { state: 'active' });
      return made;
    });
  }

  /** Removes a cell that could not be added. Does nothing if the cell was removed already: another cell may have its number now. */
  async #forget(number: number, id: string, isOnCitus: boolean): Promise<void> {
    const home = homeOf(this.#parts.cells);
    if (!(await readCells(home)).some((row) => row.id === id)) return;
    if (isOnCitus) await dropCitusSchema(home, number);
    await this.#change(async (query) => {
      await deleteCell(query, id);
      return { kind: 'done', value: number };
    });
  }

  #self(): Promise<CellSelf> {
    return homeOf(this.#parts.cells).transaction((query) => nameSelf(query, randomUUID(), 0));
  }

  /** Sets the given members. A new connection string must lead to the same cell. */
  async update(
    number: number,
    {
      name,
      database,
      accept_restored,
    }: { name?: string | undefined; database?: string | undefined; accept_restored?: true | undefined },
  ): Promise<Result<number>> {
    const { cells, key } = this.#parts;
    await cells.load();
    const cell = cells.find(number);
    if (cell === undefined || number === 0) return problem('cell_unknown');
    const { kind } = cell.address;
    if (kind === 'citus' && database !== undefined)
      return invalid('/database', 'A cell on Citus has the connection string of the settings: change DATABASE_URL.');
    const self = await readSelf(homeOf(cells));
    const markIn = async (pool: Database, conninfo: string): Promise<Result<{ conninfo: string; mark: number }>> => {
      const found = await readSelf(pool, ASK_TIMEOUT_MS);
      return found?.installation === self!.installation && found.number === number
        ? { kind: 'done', value: { conninfo, mark: found.mark } }
        : invalid('/database', `This database is not cell ${number} of this installation.`);
    };
    const reached =
      database !== undefined
        ? await this.#withServer(database, { name: cell.name, number }, markIn)
        : accept_restored
          ? await tryServer(cell.conninfo, this.#isLocal, markIn)
          : { kind: 'done' as const, value: { conninfo: cell.conninfo, mark: 0 } };
    if (reached.kind === 'problem') return reached;
    const { conninfo, mark } = reached.value;
    return this.#change(async (query) => {
      const row = await lockCell(query, number);
      if (row === undefined) return problem('cell_unknown');
      const other = name === undefined ? undefined : await lockCell(query, name);
      if (other !== undefined && other.number !== number) return problem('cell_name_taken');
      if (accept_restored) await noteEverything(query, number);
      await updateCell(query, number, {
        ...(name === undefined ? {} : { name }),
        ...(database === undefined ? {} : { sealed: seal(Buffer.from(conninfo), key, row.id) }),
        ...(accept_restored ? { mark } : {}),
      });
      await this.#record(query, 'update', number, name ?? row.name, {
        ...(database === undefined ? {} : { address: describeConninfo(conninfo) }),
        ...(accept_restored ? { accept_restored } : {}),
      });
      return { kind: 'done', value: number };
    });
  }

  /** Marks the cell as draining: no webhook is placed in it any more. The caller moves the webhooks that are in it. */
  drain(number: number): Promise<Result<number>> {
    return this.#change(async (query) => {
      const row = await lockCell(query, number);
      if (row === undefined) return problem('cell_unknown');
      if (row.state === 'adding') return problem('cell_unready');
      await updateCell(query, number, { state: 'draining' });
      await this.#record(query, 'drain', number, row.name, {});
      return { kind: 'done', value: number };
    });
  }

  /** Removes a cell that has neither webhooks nor events, or one whose adding or removal was interrupted. */
  async remove(number: number): Promise<Result<number>> {
    const { cells } = this.#parts;
    await cells.load();
    const cell = cells.find(number);
    if (cell === undefined || number === 0) return problem('cell_unknown');
    const isEmptied = async () => cell.state === 'draining' && (await isEmpty(cell.database));
    if (cell.state !== 'adding' && !(await isEmptied())) return problem('cell_in_use');
    if (cell.address.kind === 'citus') {
      // In the state `adding` no process uses the tables, and after an error another call can continue.
      const retired = await this.#changeUnused(cell, (query) => updateCell(query, number, { state: 'adding' }));
      if (retired.kind === 'problem') return retired;
      try {
        await dropCitusSchema(homeOf(cells), number);
      } catch (error) {
        if (error instanceof DatabaseUnavailable) throw error;
        const reason = oneLine((error as Error).message);
        return problem('cell_in_use', `Citus does not drop the schema of the cell: ${reason}. Remove the cell again.`);
      }
    }
    return this.#changeUnused(cell, async (query, { id, name }) => {
      await deleteCell(query, id);
      await this.#record(query, 'remove', number, name, {});
    });
  }

  /** Changes a cell that no webhook is in. */
  #changeUnused(cell: Cell, work: (query: Query, row: CellRow) => Promise<void>): Promise<Result<number>> {
    const { number, address } = cell;
    return this.#change(async (query) => {
      const row = await lockCell(query, number);
      if (row === undefined || !cell.isOf(row, address)) return problem('cell_unknown');
      if (await hasWebhooks(query, number)) return problem('cell_in_use');
      await work(query, row);
      return { kind: 'done', value: number };
    });
  }

  /** Runs `work` in a transaction and waits until all processes have read the cells again. */
  async #change<T>(work: (query: Query) => Promise<Result<T>>): Promise<Result<T>> {
    const { cells, changes } = this.#parts;
    const home = homeOf(cells);
    const changed = await changes.announced(
      'cell:all',
      () => home.transaction(work),
      ({ kind }) => kind === 'done',
    );
    await cells.load();
    return changed;
  }

  /** @param number null: the cell has none yet */
  #record(query: Query, verb: string, number: number | null, name: string, after: object): Promise<void> {
    const target = { kind: 'cell', id: number === null ? null : String(number), name };
    return record(query, this.#actor, { action: `cell.${verb}`, target, after: { number, name, ...after } });
  }
}

function homeOf(cells: Cells): Database {
  return cells.numbered(0).database;
}
