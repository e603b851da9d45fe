/** The log on a terminal: readable lines. */
import pretty from 'pino-pretty';
import { visible } from './visible.ts';

const format = pretty.prettyFactory({
  colorize: true,
  ignore: 'pid,hostname,event,place,line',
  // For output of another program, show only its line, not the meaning of the event.
  messageFormat: (log, messageKey) => String(log.line ?? log[messageKey]),
  translateTime: 'SYS:HH:MM:ss',
  singleLine: true,
});

/** Converts a line of the log. */
export const readable = (line: string): string => format(withVisibleText(line));

/** Parses a line and escapes control characters in its fields, because the readable form would send them to the terminal. */
function withVisibleText(line: string): object | string {
  try {
    return JSON.parse(line, (_, value: unknown) => (typeof value === 'string' ? visible(value) : value));
  } catch {
    // Not JSON: a process wrote other text that starts with a brace.
    return visible(line);
  }
}
