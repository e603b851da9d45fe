/** Lines that show forwarded deliveries: for people, or as JSON. */
import { styleText } from 'node:util';
import { type CommandIo, jsonLine } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import type { Attempted } from './forward.ts';
import { FORWARD_METHOD } from './request.ts';

const TYPE_COLUMNS = 24;

export interface LineOptions {
  json: boolean;
  colour: boolean;
  /** Whether the events of several webhooks are forwarded. */
  names: boolean;
}

/** Whether text on this output may have colours: only on a terminal, unless NO_COLOR is set (no-color.org). */
export function hasColour({ stdout, environment }: Pick<CommandIo, 'stdout' | 'environment'>): boolean {
  return stdout.isTTY === true && !environment.NO_COLOR;
}

/** Formats one attempt: time, method, type, bytes, result and milliseconds. Ends with a line feed. */
export function attemptLine(attempted: Attempted, at: Date, { json, colour, names }: LineOptions): string {
  if (json) return jsonLine(attemptDocument(attempted, at));
  const { delivery, problem, status, ms } = attempted;
  const { event, attempt } = delivery;
  const result = problem ?? String(status);
  // Without the check, which since Node 22 looks at process.stdout instead of the command's output.
  const inColour = (text: string) => styleText(problem === null ? 'green' : 'red', text, { validateStream: false });
  const parts = [
    at.toTimeString().slice(0, 8),
    FORWARD_METHOD,
    visibleLine(event.event_type ?? '-').padEnd(TYPE_COLUMNS),
    bytesText(event.body.length).padStart(9),
    `${ms.toFixed(0)} ms`.padStart(8),
    colour ? inColour(visibleLine(result)) : visibleLine(result),
  ];
  if (attempt > 1) parts.push(`(attempt ${attempt})`);
  if (names) parts.push(visibleLine(event.webhook_name));
  return `${parts.join('  ')}\n`;
}

function attemptDocument({ delivery, status, problem, ms }: Attempted, at: Date) {
  const { id, attempt, event } = delivery;
  return {
    at: at.toISOString(),
    delivery_id: id,
    event_id: event.id,
    webhook_id: event.webhook_id,
    event_type: event.event_type,
    method: FORWARD_METHOD,
    bytes: event.body.length,
    attempt,
    status,
    problem,
    ms: Math.round(ms),
  };
}

function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
