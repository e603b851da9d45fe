/**
 * Changes one resource: in one transaction with its audit entry, then announced. Resolves once every process knows the change.
 */
import { ProblemError, problem, type Result } from '../../base/http/problem.ts';
import type { ProblemCode } from '../../model/errors.ts';
import { type Actor, type AuditKind, record } from '../../store/audit/record.ts';
import type { Changes } from '../../store/connect/listen.ts';
import type { Database, Query } from '../../store/connect/pool.ts';

/** Precondition of a change, evaluated on the current, locked row. */
export type Expects<Row> = (current: Row) => boolean;

/** No precondition. */
export const asItIs = (): boolean => true;

/** Further members of an audit entry: what the resource itself does not contain, such as the subscriptions of an agent. */
export interface AuditMembers {
  before?: object;
  after?: object;
}

interface Created {
  isRestored: boolean;
  more?: AuditMembers;
}

interface Kind<Row> {
  /** Prefix of its announcements and of its actions in the audit log. */
  name: AuditKind;
  /** As the audit log names one. */
  nameOf(row: Row): string;
  /** Problem when the resource does not exist, or cannot be changed. */
  unknown: ProblemCode;
  /** Locks the row until the transaction ends. Returns false if there is no row that can be changed. */
  lock(query: Query, id: string): Promise<boolean>;
  /** The resource as the API returns it; undefined if deleted. */
  find(query: Query, id: string): Promise<Row | undefined>;
}

export interface ChangeParts {
  database: Database;
  changes: Changes;
}

export class Changer<Row extends { id: string }> {
  readonly #parts: { database: Database; changes: Changes | null };
  readonly #actor: Actor;
  readonly #kind: Kind<Row>;

  /**
   * @param parts `changes` null: every request reads the resource from the database, so that nothing is announced
   * @param actor author of the changes
   */
  constructor(parts: { database: Database; changes: Changes | null }, actor: Actor, kind: Kind<Row>) {
    this.#parts = parts;
    this.#actor = actor;
    this.#kind = kind;
  }

  /** @param insert inserts the row with this id, or restores the deleted one that has it. Throws ProblemError. */
  create(id: string, insert: (query: Query) => Promise<Created>): Promise<Result<Row>> {
    return this.#announced(id, async (query) => {
      const { isRestored, more } = await insert(query);
      const after = (await this.#kind.find(query, id))!;
      const verb = isRestored ? 'restore' : 'create';
      await this.#record(query, verb, after, { before: null, after: { ...after, ...more?.after } });
      return { kind: 'done', value: after };
    });
  }

  /**
   * Resolves with the resource after the change, or before it if the change deleted it.
   * @param work gets the locked resource before the change: judge the change by it before any statement, since a CHECK that fails is a 500.
   */
  change(
    id: string,
    verb: string,
    expects: Expects<Row>,
    work: (query: Query, before: Row) => Promise<AuditMembers> | Promise<void>,
  ): Promise<Result<Row>> {
    return this.#announced(id, async (query) => {
      const before = (await this.#kind.lock(query, id)) ? await this.#kind.find(query, id) : undefined;
      if (before === undefined) return problem(this.#kind.unknown);
      if (!expects(before)) return problem('precondition_failed');
      const more = (await work(query, before)) ?? {};
      const after = (await this.#kind.find(query, id)) ?? null;
      await this.#record(query, verb, before, {
        before: { ...before, ...more.before },
        after: after && { ...after, ...more.after },
      });
      return { kind: 'done', value: after ?? before };
    });
  }

  async #announced<T>(id: string, work: (query: Query) => Promise<Result<T>>): Promise<Result<T>> {
    const { database, changes } = this.#parts;
    const payload = `${this.#kind.name}:${id}`;
    try {
      const changed = () => database.transaction(work);
      return await (changes?.announced(payload, changed, ({ kind }) => kind === 'done') ?? changed());
    } catch (error) {
      // What only the database can decide, thrown to roll the transaction back.
      if (error instanceof ProblemError) return error.problem;
      throw error;
    }
  }

  #record(query: Query, verb: string, row: Row, states: { before: object | null; after: object | null }) {
    const { name: kind, nameOf } = this.#kind;
    const target = { kind, id: row.id, name: nameOf(row) };
    return record(query, this.#actor, { action: `${kind}.${verb}`, target, ...states });
  }
}
