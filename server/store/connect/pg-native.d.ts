/** The parts of pg-native and its libpq addon that ../copy/connection.ts and client.ts use; neither package has types. */
declare module 'pg-native' {
  import type { EventEmitter } from 'node:events';

  export interface Libpq extends EventEmitter {
    connect(conninfo: string, callback: (error?: Error) => void): void;
    finish(): void;
    errorMessage(): string;
    setNonBlocking(on: boolean): boolean;
    sendQuery(text: string): boolean;
    sendQueryParams(text: string, values: readonly string[]): boolean;
    /** True while there is a result to read. */
    getResult(): boolean;
    /** Forgets the last result. */
    clear(): void;
    resultStatus(): string;
    resultErrorMessage(): string;
    resultErrorFields(): { sqlState?: string; messagePrimary?: string };
    ntuples(): number;
    getvalue(row: number, column: number): string;
    consumeInput(): boolean;
    isBusy(): boolean;
    /** 0 flushed, 1 would block, -1 error. */
    flush(): number;
    putCopyData(data: Buffer): number;
    putCopyEnd(error?: string): number;
    startReader(): void;
    stopReader(): void;
    writable(callback: () => void): this;
    /** The next notification that was read. */
    notifies(): object | undefined;
  }

  export default class Client extends EventEmitter {
    readonly pq: Libpq;
    /** Sends what `send` passes to libpq. */
    _dispatchQuery: (pq: Libpq, send: () => boolean, sent: (error?: Error | string) => void) => void;
    /** Reads the values of a result. */
    _consumeQueryResults: (pq: Libpq) => { rows: object[] };
    /** Fails the statement in progress. */
    _queryError: Error;
    _stopReading(): void;
    /** Callback of the statement whose result is awaited. */
    _queryCallback: unknown;
    /** Called when the socket is readable. */
    _read: () => void;
    /** Reports the connection as lost. */
    _readError(): void;
    /** Calls back when the socket has taken all that was sent. */
    _waitForDrain(pq: Libpq, sent: (error?: Error | string) => void): void;
  }
}
