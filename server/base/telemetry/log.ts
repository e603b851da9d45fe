/** The log: one line an event of log-events.ts, as JSON on stdout, or readable on a terminal. */
import pino from 'pino';
import sonicBoom from 'sonic-boom';
import { type LogEvent, logEvents } from './log-events.ts';
import { visibleJson } from './visible.ts';

/** Writes one line. Fields never contain secrets or any part of a token. */
export interface Log {
  (event: LogEvent, fields?: Record<string, unknown>): void;
  /** False if a line of this event would be dropped. Check it before collecting expensive fields. */
  enabled(event: LogEvent): boolean;
  /** Lines dropped so far, because the reader of the log did not read. */
  dropped(): number;
}

export interface AdjustableLog extends Log {
  setLevel(level: string): void;
}

export interface LogDestination {
  write(line: string): void;
  /** Writes the buffered lines before the process ends; waits for the reader as long as it takes. */
  flush(): void;
  /** Like `flush`, but waits for at most END_PATIENCE_MS. Then it kills this process, and never resolves. */
  finish(): Promise<void>;
  /** Lines that were not written. */
  dropped(): number;
}

/** Bytes buffered before a write. A buffer that does not fill is flushed after FLUSH_MS. */
const BUFFER_BYTES = 4_096;
const FLUSH_MS = 250;
/** Maximum bytes held for a slow or stopped reader. Further lines are dropped. */
const HELD_BYTES_MAX = 16_777_216;

/** How long the end of the program waits for a reader that does not read. */
const END_PATIENCE_MS = 10_000;

/**
 * Opens a file descriptor for lines: buffered JSON, or readable lines without buffering.
 * @param readable converts a line for a terminal, see readable.ts, or returns '' for one that is not shown; null: JSON
 */
export function openDestination(fd: number, readable: ((line: string) => string) | null = null): LogDestination {
  const minLength = readable === null ? BUFFER_BYTES : 0;
  const sink = new sonicBoom.SonicBoom({ fd, sync: readable !== null, minLength, maxLength: HELD_BYTES_MAX });
  let drops = 0;
  sink.on('drop', () => {
    drops++;
  });
  // A closed reader must not end the service.
  sink.on('error', () => {});
  const flush = () => {
    try {
      sink.flushSync();
    } catch {
      // The error cannot be reported anywhere else.
    }
  };
  const finish = async () => {
    // A thread that is blocked in a write prevents every exit of Node, also process.exit.
    const killer = setTimeout(() => process.kill(process.pid, 'SIGKILL'), END_PATIENCE_MS);
    await new Promise<void>((resolve) => sink.flush(() => resolve()));
    clearTimeout(killer);
  };
  const write = (line: string) => {
    const shown = readable === null ? visibleJson(line) : readable(line);
    if (shown !== '') sink.write(shown);
  };
  if (readable === null) setInterval(() => sink.flush(), FLUSH_MS).unref();
  return { write, flush, finish, dropped: () => drops };
}

/** Creates a log. @param base fields of every line, e.g. the place of the process. */
export function createLog(
  destination: Pick<LogDestination, 'write' | 'flush' | 'dropped'>,
  level: string,
  base: Record<string, unknown>,
): AdjustableLog {
  const logger = pino(
    { level, base: { pid: process.pid, ...base }, timestamp: pino.stdTimeFunctions.isoTime },
    destination,
  );
  const log = (event: LogEvent, fields: Record<string, unknown> = {}) => {
    const [level, meaning] = logEvents[event];
    logger[level]({ event, ...fields }, meaning);
  };
  return Object.assign(log, {
    enabled: (event: LogEvent) => logger.isLevelEnabled(logEvents[event][0]),
    dropped: () => destination.dropped(),
    setLevel: (name: string) => {
      logger.level = name;
    },
  });
}
