/**
 * A libpq connection for COPY .. FROM STDIN, for the look-up after a COPY whose outcome is unknown, and for the transaction of the spool's
 * drain.
 *
 * pg-native's own copy stream drops errors and can stop forever. libuv polls the one socket with two handles, and with both active the writer
 * never wakes. The reader is therefore stopped before a wait for the socket to become writable. In COPY_IN state getResult() returns COPY_IN
 * repeatedly, so nothing drains it there. When the server closes the connection while it has unread bytes from us, no callback ever runs
 * again, so a timer checks the connection.
 */
import Native, { type Libpq } from 'pg-native';
import { outliveClose, weirConninfo, writableConninfo } from '../connect/conninfo.ts';
import { SETUP_TIMEOUT_MS, sessionSetup } from '../connect/session.ts';
import { sqlStateKind } from '../connect/unavailable.ts';

export type CopyOutcome =
  | { kind: 'committed' }
  /** The server rejected the data; none of it is stored. The connection is closed when its session cannot write. */
  | { kind: 'refused'; sqlState: string; message: string }
  /** The connection was lost. `inDoubt`: the end of the data was sent, so the data may be committed or not. */
  | { kind: 'lost'; inDoubt: boolean; message: string };

/** COPY connections per process, see GroupCommit. */
export const COPY_CONNECTIONS = 2;

/** libpq copies its input; slices keep its buffer small. */
const SLICE_BYTES = 262_144;
/** Check interval: a connection lost without a wake-up is detected within this time. */
const CHECK_EVERY_MS = 250;

/** The fan-out reads the rows of a COPY, including bodies, from memory; the default of 4 MB would spill a full batch to disk. */
const SESSION_SETUP = sessionSetup([{ name: 'work_mem', value: '32MB' }]);

class ConnectionLost extends Error {}

/** One connection for COPY, with the session settings of Weir. A lost connection is not opened again. */
export class CopyConnection {
  readonly #pq: Libpq;
  #onClosed: (reason: string) => void = () => {};
  #closed = false;
  /** A COPY started before its data, and whether the server is ready for the data. */
  #beginning: Promise<CopyOutcome | null> | null = null;
  #ready = false;
  /** Called when the socket is readable or the connection is closed. */
  #wake: (() => void) | null = null;
  readonly #checkTimer: NodeJS.Timeout;

  private constructor(pq: Libpq) {
    this.#pq = pq;
    pq.setNonBlocking(true);
    pq.on('readable', () => this.#wakeOrRead());
    pq.startReader();
    this.#checkTimer = setInterval(() => this.#wakeOrRead(), CHECK_EVERY_MS).unref();
  }

  /**
   * Connects and sets up the session. Rejects with libpq's message, which never contains the password.
   * @param onClosed called once when either side ends the connection, with the reason.
   */
  static async connect(
    conninfo: string,
    onClosed: (reason: string) => void,
    applicationName = 'weir-copy',
  ): Promise<CopyConnection> {
    const { pq } = new Native();
    const connection = await new Promise<CopyConnection>((resolve, reject) => {
      pq.connect(writableConninfo(weirConninfo(conninfo, applicationName)), (error) => {
        if (!error) return resolve(new CopyConnection(pq));
        pq.finish();
        outliveClose(pq);
        reject(error);
      });
    });
    const timer = setTimeout(() => connection.close('timeout expired'), SETUP_TIMEOUT_MS);
    try {
      await connection.run(SESSION_SETUP);
    } catch (error) {
      connection.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    connection.#onClosed = onClosed;
    return connection;
  }

  /** Sends the bytes with the COPY statement and waits for the commit. Never rejects. One call at a time. */
  async copyIn(sql: string, data: Buffer): Promise<CopyOutcome> {
    // If the server is already waiting, all data is sent before this call returns, without a turn of the event loop in between.
    if (!this.#ready) {
      const beginning = this.#beginning ?? this.#begin(sql);
      // Before the outcome is known: a refusal is returned once, and the next call starts a new COPY.
      this.#beginning = null;
      const failure = await beginning;
      if (failure !== null) return failure;
    }
    this.#ready = false;
    this.#beginning = null;
    let endSent = false;
    try {
      for (let at = 0; at < data.length; at += SLICE_BYTES) {
        this.#check(this.#pq.putCopyData(data.subarray(at, at + SLICE_BYTES)) === 1);
        if (this.#pq.flush() !== 0) await this.#flush();
      }
      endSent = true;
      this.#check(this.#pq.putCopyEnd() === 1);
      if (this.#pq.flush() !== 0) await this.#flush();
      const error = await this.#drain();
      return error === null ? { kind: 'committed' } : this.#refused(error);
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      this.close(error.message);
      return { kind: 'lost', inDoubt: endSent, message: error.message };
    }
  }

  /** Starts a COPY before its data; the next `copyIn` continues it. The transaction stays open until then. */
  begin(sql: string): void {
    this.#beginning ??= this.#begin(sql);
  }

  async #begin(sql: string): Promise<CopyOutcome | null> {
    try {
      await this.#send(sql);
      if ((await this.#result()) !== 'PGRES_COPY_IN') return this.#refused(await this.#drain());
      this.#ready = true;
      return null;
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      this.close(error.message);
      return { kind: 'lost', inDoubt: false, message: error.message };
    }
  }

  /**
   * Runs one or several statements. Returns the first column of the first statement's rows; empty if it returns none. Rejects if one
   * fails; the error of the server has its SQLSTATE as `code`.
   * @param values parameters of the one statement
   */
  async run(sql: string, values?: readonly string[]): Promise<string[]> {
    await this.#send(sql, values);
    const status = await this.#result();
    const rows =
      status === 'PGRES_TUPLES_OK' ? Array.from({ length: this.#pq.ntuples() }, (_, i) => this.#pq.getvalue(i, 0)) : [];
    const error = await this.#drain();
    if (error !== null) throw Object.assign(new Error(error.message), { code: error.sqlState });
    return rows;
  }

  /** Closes the connection; a call in progress reports it as lost. */
  close(reason = 'closed'): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#checkTimer);
    this.#pq.stopReader();
    this.#pq.removeAllListeners();
    this.#pq.finish();
    outliveClose(this.#pq);
    this.#wake?.();
    this.#onClosed(reason);
  }

  #wakeOrRead(): void {
    if (this.#wake !== null) this.#wake();
    // No call is waiting: the server closed the session or sent a notice. Read it, so that the poll does not spin.
    else if (!this.#pq.consumeInput()) this.close(this.#pq.errorMessage().trim());
  }

  async #send(sql: string, values?: readonly string[]): Promise<void> {
    const pq = this.#pq;
    this.#check(!this.#closed && (values === undefined ? pq.sendQuery(sql) : pq.sendQueryParams(sql, values)));
    await this.#flush();
  }

  async #flush(): Promise<void> {
    for (;;) {
      const state = this.#pq.flush();
      this.#check(state !== -1);
      if (state === 0) return;
      this.#pq.stopReader();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#pq.writable(resolve);
      });
      this.#wake = null;
      this.#check(!this.#closed);
      // After a wake-up by the timer, the writable callback is still registered.
      this.#pq.removeAllListeners('writable');
      this.#pq.startReader();
      // The server may be reporting an error; left unread, it would block both sides.
      this.#check(this.#pq.consumeInput());
    }
  }

  async #result(): Promise<string | null> {
    while (this.#pq.isBusy()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
      this.#check(!this.#closed && this.#pq.consumeInput());
    }
    return this.#pq.getResult() ? this.#pq.resultStatus() : null;
  }

  /** Reads results to the end of the statement. Returns the error among them, or null. */
  async #drain(): Promise<ServerError | null> {
    let error = this.#pq.resultStatus() === 'PGRES_FATAL_ERROR' ? this.#currentError() : null;
    for (let status = await this.#result(); status !== null; status = await this.#result())
      if (status === 'PGRES_FATAL_ERROR') error = this.#currentError();
    // A FATAL message (shutdown, terminated by an administrator) arrives as a result; the server closes the socket after it.
    if (error !== null && sqlStateKind(error.sqlState) === 'session_ended') throw new ConnectionLost(error.message);
    return error;
  }

  #currentError(): ServerError {
    const { sqlState = '', messagePrimary } = this.#pq.resultErrorFields();
    const message = messagePrimary ?? this.#pq.resultErrorMessage();
    // An error without a SQLSTATE comes from libpq: the connection broke.
    if (sqlState === '') throw new ConnectionLost(message);
    return { sqlState, message };
  }

  #refused(error: ServerError | null): CopyOutcome {
    if (error !== null && sqlStateKind(error.sqlState) === 'session_read_only') this.close(error.message);
    return { kind: 'refused', sqlState: error?.sqlState ?? '', message: error?.message ?? 'no COPY' };
  }

  #check(ok: boolean): void {
    if (!ok) throw new ConnectionLost(this.#closed ? 'the connection was closed' : this.#pq.errorMessage().trim());
  }
}

interface ServerError {
  sqlState: string;
  message: string;
}
