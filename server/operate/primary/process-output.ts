/** What a serving process writes to its standard output and error, as lines of the log. */
import type { Readable } from 'node:stream';
import type { Log, LogDestination } from '../../base/telemetry/log.ts';

/** Lines within this time of the first one form one log line: V8 writes the trace of a process without memory in many parts. */
const TOGETHER_MS = 100;
const LINES_MAX = 100;
/** Longest line, in UTF-16 units; what is longer is cut into several. Log lines are far shorter. */
const LINE_CHARS_MAX = 1_048_576;

interface WritingProcess {
  pid?: number | undefined;
  stdout: Readable | null;
  stderr: Readable | null;
}

/**
 * Forwards log lines unchanged. Any other output becomes a log line, so that the stream stays JSON: one for consecutive lines, such as
 * a stack trace.
 */
export function forwardOutput(
  { pid, stdout, stderr }: WritingProcess,
  { destination, log }: { destination: Pick<LogDestination, 'write'>; log: Log },
): void {
  for (const stream of [stdout!, stderr!]) {
    let rest = '';
    let others: string[] = [];
    let timer: NodeJS.Timeout | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      if (others.length > 0) log('process_output', { process: pid, line: others.join('\n') });
      others = [];
    };
    const add = (line: string) => {
      if (line !== '') others.push(line);
      if (others.length >= LINES_MAX) flush();
      else timer ??= setTimeout(flush, TOGETHER_MS);
    };
    const take = (line: string) => {
      if (stream === stdout && line.startsWith('{')) {
        flush();
        destination.write(`${line}\n`);
      } else add(line);
    };
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop()!;
      for (const line of lines) take(line);
      if (rest.length > LINE_CHARS_MAX) {
        add(rest);
        rest = '';
      }
    });
    stream.on('end', () => {
      take(rest);
      flush();
    });
  }
}
