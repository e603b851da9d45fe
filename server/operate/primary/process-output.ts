/** What a serving process writes to its standard output and error, as lines of the log. */
import type { Readable } from 'node:stream';
import type { Log, LogDestination } from '../../base/telemetry/log.ts';

/** Longest line, in UTF-16 units; what is longer is cut into several. Log lines are far shorter. */
const LINE_CHARS_MAX = 1_048_576;

interface WritingProcess {
  pid?: number | undefined;
  stdout: Readable | null;
  stderr: Readable | null;
}

/**
 * Forwards log lines unchanged. Any other output becomes a log line, so that the stream stays JSON: one for the consecutive lines that
 * arrive together, such as a stack trace.
 */
export function forwardOutput(
  { pid, stdout, stderr }: WritingProcess,
  { destination, log }: { destination: Pick<LogDestination, 'write'>; log: Log },
): void {
  for (const stream of [stdout!, stderr!]) {
    let rest = '';
    let others: string[] = [];
    const flush = () => {
      if (others.length > 0) log('process_output', { process: pid, line: others.join('\n') });
      others = [];
    };
    const take = (line: string) => {
      if (stream === stdout && line.startsWith('{')) {
        flush();
        destination.write(`${line}\n`);
      } else if (line !== '') others.push(line);
    };
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop()!;
      for (const line of lines) take(line);
      if (rest.length > LINE_CHARS_MAX) {
        others.push(rest);
        rest = '';
      }
      flush();
    });
    stream.on('end', () => {
      take(rest);
      flush();
    });
  }
}
