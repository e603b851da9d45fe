/** What the sessions of Weir are like, whatever the role, the database or the options of the connection string set. */

interface OwnSetting {
  name: string;
  value: string;
  /** Only this value is replaced; absent: every other one. */
  instead?: string;
}

/** Left to the operator: search_path, role, default_tablespace, default_transaction_read_only, memory, the planner and the log. */
export const ownSettings: readonly OwnSetting[] = [
  // First: it ends the session also when another setting is refused.
  { name: 'exit_on_error', value: 'off' },
  // Weir limits its statements itself, see pool.ts. Its sessions are idle for long, and COPY waits in a transaction.
  ...['statement', 'lock', 'idle_in_transaction_session', 'idle_session', 'transaction'].map((what) => ({
    name: `${what}_timeout`,
    value: '0',
  })),
  // The server ends the session of a machine that is cut off within 25 seconds, and with it its locks. By default it waits two hours, during
  // which an open COPY would block the removal of old partitions, and a migration. Ignored on a socket of the machine.
  { name: 'tcp_keepalives_idle', value: '10' },
  { name: 'tcp_keepalives_interval', value: '5' },
  { name: 'tcp_keepalives_count', value: '3' },
  // How statements are read.
  { name: 'standard_conforming_strings', value: 'on' },
  { name: 'backslash_quote', value: 'safe_encoding' },
  { name: 'array_nulls', value: 'on' },
  { name: 'transform_null_equals', value: 'off' },
  // How values are read and written.
  { name: 'client_encoding', value: 'UTF8' },
  { name: 'TimeZone', value: 'UTC' },
  { name: 'DateStyle', value: 'ISO, MDY' },
  { name: 'IntervalStyle', value: 'postgres' },
  { name: 'bytea_output', value: 'hex' },
  { name: 'extra_float_digits', value: '1' },
  // What a commit means. Other levels of synchronous_commit than off are durable, and may be stronger than on.
  { name: 'default_transaction_isolation', value: 'read committed' },
  { name: 'default_transaction_deferrable', value: 'off' },
  { name: 'synchronous_commit', value: 'on', instead: 'off' },
  // Triggers fan out events and announce changes. Only a superuser may set it: another role is refused here rather than serve without them.
  { name: 'session_replication_role', value: 'origin' },
  // libpq writes notices to stderr, as text.
  { name: 'client_min_messages', value: 'error' },
  // Weir's statements are short, but over daily partitions Postgres estimates them as expensive and compiles each one on every run. The
  // activity of 40 agents with 40 webhooks each over 37 partitions (Postgres 15, a busy machine, 10 alternating runs each): 2.0 to 4.6 s
  // with JIT, 0.25 to 0.72 s without.
  { name: 'jit', value: 'off' },
];

/**
 * The first statement of a session: startup options would save its round trip, but servers and PgBouncer refuse some.
 * @param more settings
 */
export function sessionSetup(more: readonly OwnSetting[] = []): string {
  const literal = (text: string | undefined) => (text === undefined ? 'null' : `'${text}'`);
  const rows = [...ownSettings, ...more].map(
    ({ name, value, instead }) => `('${name}', '${value}', ${literal(instead)})`,
  );
  return `select count(set_config(name, value, false)) from (values ${rows.join(', ')}) own (name, value, instead)
    where current_setting(name, true) <> value and current_setting(name, true) = coalesce(instead, current_setting(name, true))`;
}

/** A server that has accepted a connection and does not answer this statement in time counts as away. */
export const SETUP_TIMEOUT_MS = 5_000;

/** While the server stays read-only, all sessions are replaced at most once in this time. */
const EVERY_MS = 1_000;

/**
 * Replaces the sessions of a pool that may be read-only (SQLSTATE 25006): a session keeps default_transaction_read_only, or its server, which
 * became a standby.
 */
export class SessionRenewal<Session extends object> {
  readonly #nowMs: () => number;
  readonly #generations = new WeakMap<Session, number>();
  #generation = 0;
  #renewedMs = Number.NEGATIVE_INFINITY;

  /** @param nowMs monotonic clock, in milliseconds. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  opened(session: Session): void {
    this.#generations.set(session, this.#generation);
  }

  /** False: close the session and open a new one. */
  isCurrent(session: Session): boolean {
    return this.#generations.get(session) === this.#generation;
  }

  /** Reports that the session could not write. */
  readOnly(session: Session): void {
    if (!this.isCurrent(session) || this.#nowMs() - this.#renewedMs < EVERY_MS) return;
    this.#renewedMs = this.#nowMs();
    this.#generation++;
  }
}
