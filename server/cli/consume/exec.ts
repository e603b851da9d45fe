/** Processes deliveries by running a command for each. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import type { CommandIo } from '../../base/command/io.ts';
import { traceparentOf } from '../../base/telemetry/trace.ts';
import type { ClaimedDelivery, Handler } from '../../deliver/client/index.ts';

/** Time from the request to stop a command until it is killed. */
const KILL_AFTER_MS = 5_000;

/** A command ends when its shell exits. Output of other processes that it started is then read until none arrives for this time. */
const OUTPUT_GRACE_MS = 500;

type Sink = (chunk: Buffer) => Promise<unknown>;

interface ExecParts {
  command: string;
  io: Pick<CommandIo, 'directory' | 'environment'>;
  /** Destinations of the command's stdout and stderr; each resolves when it accepts more data. */
  output: Sink;
  complaint: Sink;
  /** Kills the commands at once. */
  stopNow: AbortSignal;
}

/**
 * Runs `sh -c` with the body on standard input and the metadata in the environment; exit code 0 means done. Each command
 * leads its own process group: Ctrl-C at the terminal reaches only this process, and stopping a command stops all processes
 * that it started.
 */
export function executor({ command, io, output, complaint, stopNow }: ExecParts): Handler {
  return async (delivery, { signal }) => {
    const child = start(command, io.directory, { ...io.environment, ...environmentOf(delivery) });
    const ended = endOf(child);
    // Without a process there may be no pipes either, as when no descriptor is left.
    if (child.pid === undefined) await ended;
    let tail = Buffer.alloc(0);
    const complain = (chunk: Buffer) => {
      tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES_MAX);
      return complaint(chunk);
    };
    const rests = [copy(child.stdout, output), copy(child.stderr, complain)];
    // A command may exit without reading its input.
    child.stdin.on('error', () => {});
    child.stdin.end(delivery.event.body);

    const signalGroup = (name: NodeJS.Signals) => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, name);
      } catch {
        // The process group has just exited.
      }
    };
    const kill = () => signalGroup('SIGKILL');
    let killTimer: NodeJS.Timeout | undefined;
    const stop = () => {
      signalGroup('SIGTERM');
      killTimer ??= setTimeout(kill, KILL_AFTER_MS);
    };
    signal.addEventListener('abort', stop);
    stopNow.addEventListener('abort', kill);
    if (signal.aborted) stop();
    const end = await ended.finally(() => {
      signal.removeEventListener('abort', stop);
      stopNow.removeEventListener('abort', kill);
      clearTimeout(killTimer);
    });
    await Promise.all(rests.map((rest) => rest()));
    // Exit code 0 of a command that was asked to stop does not mean that its work was done.
    signal.throwIfAborted();
    if (end.code !== 0) throw new Error(failureReason(end, lastLineOf(tail)));
  };
}

function start(command: string, directory: string, env: NodeJS.ProcessEnv): ChildProcessWithoutNullStreams {
  try {
    return spawn('sh', ['-c', command], { cwd: directory, env, detached: true, stdio: 'pipe' });
  } catch (error) {
    throw notStarted(error);
  }
}

type CommandEnd = Record<'code', number | null> & Record<'signal', string | null>;

function endOf(child: ChildProcessWithoutNullStreams): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(notStarted(error)));
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
}

/**
 * Copies a stream to a sink at the speed of the sink. Returns the function to call after the writer has exited: it resolves when the rest
 * has been copied, or when no data arrived for OUTPUT_GRACE_MS.
 */
function copy(from: Readable, to: Sink): () => Promise<void> {
  let chunks = 0;
  let isPassing = false;
  let isWhole = false;
  const run = async () => {
    for await (const chunk of from) {
      isPassing = true;
      chunks += 1;
      await to(chunk);
      isPassing = false;
    }
  };
  // It rejects when the stream is destroyed after the command has ended.
  const whole = run().then(
    () => (isWhole = true),
    () => (isWhole = true),
  );
  return async () => {
    for (let before = -1; !isWhole && (isPassing || chunks !== before); ) {
      before = chunks;
      await Promise.race([whole, delay(OUTPUT_GRACE_MS)]);
    }
    from.destroy();
  };
}

function notStarted(error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  return new Error(`the command could not be started: ${code ?? message}`);
}

/** Part of stderr that is kept; a longer last line is truncated at its start. */
const TAIL_BYTES_MAX = 4_096;

/** The last line with text, without control characters; '' when every line is empty. */
function lastLineOf(tail: Buffer): string {
  const lines = stripVTControlCharacters(tail.toString('utf8')).split(/[\r\n]+/);
  return lines.map((line) => line.replace(/\p{Cc}+/gu, ' ').trim()).findLast((line) => line !== '') ?? '';
}

/** Formats `exit 3: last line`, or `signal SIGKILL: …`. */
function failureReason(end: CommandEnd, lastLine: string): string {
  const how = end.code === null ? `signal ${end.signal}` : `exit ${end.code}`;
  return lastLine === '' ? how : `${how}: ${lastLine}`;
}

type Described = Pick<ClaimedDelivery, 'id' | 'attempt'> & {
  traceparent?: string | undefined;
  event: Omit<ClaimedDelivery['event'], 'body' | 'body_base64'>;
};

/**
 * Environment variables for the command of a delivery. TRACEPARENT, TRACESTATE and BAGGAGE are those of the sender's request, as
 * OpenTelemetry reads them; where Weir traces, TRACEPARENT is its own span. Undefined unsets a variable, also one that this process has.
 */
export function environmentOf({ id, attempt, traceparent: own, event }: Described): Record<string, string | undefined> {
  const traceparent = traceparentOf(own ?? event.headers.traceparent);
  return {
    WEIR_DELIVERY_ID: id,
    WEIR_EVENT_ID: event.id,
    WEIR_WEBHOOK_ID: event.webhook_id,
    WEIR_WEBHOOK_NAME: event.webhook_name,
    WEIR_ATTEMPT: String(attempt),
    WEIR_RECEIVED_AT: event.received_at,
    WEIR_EVENT_TYPE: event.event_type ?? '',
    WEIR_CONTENT_TYPE: event.content_type ?? '',
    WEIR_REQUEST_ID: event.headers['x-request-id'] ?? '',
    TRACEPARENT: traceparent,
    TRACESTATE: traceparent && (event.headers.tracestate || undefined),
    BAGGAGE: event.headers.baggage || undefined,
    WEIR_HEADERS: JSON.stringify(event.headers),
  };
}
