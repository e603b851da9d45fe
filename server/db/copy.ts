/**
 * One libpq connection that does nothing but COPY .. FROM STDIN, and the look-up after a COPY whose end nobody heard.
 *
 * pg-native's own copy stream drops errors and can stop for ever, so this speaks to libpq itself. Two things to know:
 * libuv polls the one socket with two handles, and with both active the writer never wakes, so the reader is stopped
 * before waiting for writable; and in COPY_IN state getResult() says COPY_IN again and again, so nothing drains it there.
 * A third: when the server closes while bytes of ours lie unread, the socket is in error, and libuv ends its poll with a status
 * that the addon swallows; nobody is woken ever again. So somebody has to look now and then (seen: a COPY that waited out
 * COMMIT_TIMEOUT_MS after pg_terminate_backend).
 */
import Native, { type Libpq } from 'pg-native';
import { weirConninfo, writableConninfo } from './conninfo.ts';
import { outliveClose } from './outlive-close.ts';
import { sqlStateKind } from './sql-states.ts';

export type CopyOutcome =
  | { kind: 'committed' }
  /** The server refused the data; nothing of it is stored. The connection is closed when its session cannot write. */
  | { kind: 'refused'; sqlState: string; message: string }
  /** The connection is gone. `inDoubt`: the end had been sent, and the data may be committed or not. */
  | { kind: 'lost'; inDoubt: boolean; message: string };

/** libpq copies what it is given; slices keep its own buffer small. */
const SLICE_BYTES = 262_144;
/** A connection that was lost without a wake-up is noticed within this. */
const LOOK_EVERY_MS = 250;

/** The fan-out reads the rows of a COPY from memory, bodies and all; the default of 4 MB would put a full batch on disk. */
const copySettings = ' -c work_mem=32MB';

class ConnectionLost extends Error {}

export class CopyConnection {
  readonly #pq: Libpq;
  readonly #onClosed: (reason: string) => void;
  #closed = false;
  /** A COPY that was begun ahead of its data, and whether the server waits for them by now. */
  #beginning: Promise<CopyOutcome | null> | null = null;
  #ready = false;
  /** Called when the socket has something to read, or when the connection is closed. */
  #wake: (() => void) | null = null;
  readonly #lookout: NodeJS.Timeout;

  private constructor(pq: Libpq, onClosed: (reason: string) => void) {
    this.#pq = pq;
    this.#onClosed = onClosed;
    pq.setNonBlocking(true);
    pq.on('readable', () => this.#look());
    pq.startReader();
    this.#lookout = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
  }

  /**
   * Rejects with libpq's message, which never holds the password.
   * @param onClosed called once when the connection ends, by whichever side, with the reason.
   */
  static connect(conninfo: string, onClosed: (reason: string) => void): Promise<CopyConnection> {
    const { pq } = new Native();
    return new Promise((resolve, reject) => {
      pq.connect(writableConninfo(weirConninfo(conninfo, 'weir-copy', copySettings)), (error) => {
        if (!error) return resolve(new CopyConnection(pq, onClosed));
        pq.finish();
        outliveClose(pq);
        reject(error);
      });
    });
  }

  /** Sends the bytes through the COPY statement and waits for its commit. Never rejects. One call at a time. */
  async copyIn(sql: string, data: Buffer): Promise<CopyOutcome> {
    // Where the server waits already, all of it is sent before this call returns: no turn of the event loop in between.
    if (!this.#ready) {
      const failure = await (this.#beginning ?? this.#begin(sql));
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

  /** Begins a COPY ahead of its data; the next `copyIn` takes it up. The transaction stays open until then. */
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

  /** First column of a query's rows. Rejects when it fails. */
  async column(sql: string): Promise<string[]> {
    await this.#send(sql);
    const status = await this.#result();
    const rows =
      status === 'PGRES_TUPLES_OK' ? Array.from({ length: this.#pq.ntuples() }, (_, i) => this.#pq.getvalue(i, 0)) : [];
    const error = await this.#drain();
    if (error !== null) throw new Error(error.message);
    return rows;
  }

  /** Ends the connection; a call under way reports it as lost. */
  close(reason = 'closed'): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#lookout);
    this.#pq.stopReader();
    this.#pq.removeAllListeners();
    this.#pq.finish();
    outliveClose(this.#pq);
    this.#wake?.();
    this.#onClosed(reason);
  }

  #look(): void {
    if (this.#wake !== null) this.#wake();
    // Nobody waits: the server says goodbye or sends a notice. Read it, so that the poll does not spin.
    else if (!this.#pq.consumeInput()) this.close(this.#pq.errorMessage().trim());
  }

  async #send(sql: string): Promise<void> {
    this.#check(!this.#closed && this.#pq.sendQuery(sql));
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
      // Woken by the look-out, the call for writable still stands.
      this.#pq.removeAllListeners('writable');
      this.#pq.startReader();
      // The server may be telling us that it gave up; unread, its words would block both sides.
      this.#check(this.#pq.consumeInput());
    }
  }

  /** Status of the next result. */
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

  /** Reads results to the end of the statement; the error among them, or null. */
  async #drain(): Promise<ServerError | null> {
    let error = this.#pq.resultStatus() === 'PGRES_FATAL_ERROR' ? this.#currentError() : null;
    for (let status = await this.#result(); status !== null; status = await this.#result())
      if (status === 'PGRES_FATAL_ERROR') error = this.#currentError();
    // A FATAL message (shutdown, terminated by an administrator) comes as a result; the socket is closed behind it.
    if (error !== null && sqlStateKind(error.sqlState) === 'session_ended') throw new ConnectionLost(error.message);
    return error;
  }

  #currentError(): ServerError {
    const { sqlState = '', messagePrimary } = this.#pq.resultErrorFields();
    const message = messagePrimary ?? this.#pq.resultErrorMessage();
    // An error without a code is libpq's own: the connection broke.
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
