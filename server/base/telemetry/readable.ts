/** The log on a terminal: readable lines. */
import pretty from 'pino-pretty';
import { visible, visibleLine } from './visible.ts';

const format = pretty.prettyFactory({
  colorize: true,
  ignore: 'pid,hostname,event,place,line',
  // For output of another program, show only its line, not the meaning of the event.
  messageFormat: (log, messageKey) => String(log.line ?? log[messageKey]),
  translateTime: 'SYS:HH:MM:ss',
  singleLine: true,
});

/** Converts a log line in JSON to a readable line with colors. */
export const readable = (line: string): string => format(withVisibleText(line));

/** Parses a line and escapes control characters in its fields, because the readable form would send them to the terminal. */
function withVisibleText(line: string): object | string {
  try {
    // Text from a server must not begin new lines. Only a stack has several.
    const shown = (name: string, text: string) => (name === 'stack' ? visible(text) : visibleLine(text));
    return JSON.parse(line, (name, value: unknown) => (typeof value === 'string' ? shown(name, value) : value));
  } catch {
    // Not JSON: a process wrote other text that starts with a brace.
    return visible(line);
  }
}
