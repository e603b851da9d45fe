/** What a serving process writes to its standard output and error, as lines of the log. */
import type { Readable } from 'node:stream';
import type { Log, LogDestination } from '../../base/telemetry/log.ts';

/** Lines within this time of the first one form one message, e.g. a libpq error or a stack trace. */
const TOGETHER_MS = 100;
/** Maximum lines of one message; further lines start the next message. */
const LINES_MAX = 100;
/** Longest line, in UTF-16 units; what is longer is cut into several. Log lines are far shorter. */
const LINE_CHARS_MAX = 1_048_576;

/** The parts of a ChildProcess that are used here. */
interface WritingProcess {
  pid?: number | undefined;
  stdout: Readable | null;
  stderr: Readable | null;
}

/** Forwards log lines unchanged. Any other output of a process becomes part of a log line, so that the stream stays JSON. */
export function forwardOutput(
  { pid, stdout, stderr }: WritingProcess,
  { destination, log }: { destination: Pick<LogDestination, 'write'>; log: Log },
): void {
  for (const stream of [stdout!, stderr!]) {
    let lines: string[] = [];
    let timer: NodeJS.Timeout | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      if (lines.length > 0) log('process_output', { process: pid, line: lines.join('\n') });
      lines = [];
    };
    const take = (line: string, isCut = false) => {
      if (stream === stdout && line.startsWith('{') && !isCut) {
        flush();
        destination.write(`${line}\n`);
      } else if (line !== '') {
        lines.push(line);
        timer ??= setTimeout(flush, TOGETHER_MS);
        if (lines.length >= LINES_MAX) flush();
      }
    };
    eachLine(stream, take, flush);
  }
}

function eachLine(stream: Readable, take: (line: string, isCut?: boolean) => void, onEnd: () => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    for (const line of lines) take(line);
    if (rest.length <= LINE_CHARS_MAX) return;
    take(rest, true);
    rest = '';
  });
  stream.on('end', () => {
    take(rest);
    onEnd();
  });
}
