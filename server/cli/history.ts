import type { Command } from 'commander';
import { HOUR, readHistory } from '../db/queries/history.ts';
import { uuid, wholeNumber } from './arguments.ts';
import { type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface HistoryOptions {
  webhook?: string;
  hours: number;
  json?: boolean;
}

/** Hours are kept for 400 days. */
const HOURS_MAX = 9_600;
/** A longer history is shown by days. */
const BY_HOUR_MAX = 48;

/** `weir history`: requests over time, as the overview draws them. */
export function defineHistory(command: Command, io: CommandIo): void {
  command
    .option('--webhook <id>', 'of this webhook; default: all webhooks together', uuid)
    .option('--hours <hours>', `how far back, at most ${HOURS_MAX}`, wholeNumber('--hours', HOURS_MAX), 24)
    .option('--json', 'print one JSON document')
    .action(({ webhook, hours, json }: HistoryOptions) =>
      withDatabase(io, async ({ database }) => {
        const stepSeconds = hours <= BY_HOUR_MAX ? HOUR : 24 * HOUR;
        const stepMs = stepSeconds * 1_000;
        const toMs = Math.ceil((Date.now() + 1) / stepMs) * stepMs;
        const steps = Math.ceil((hours * HOUR) / stepSeconds);
        const span = { fromMs: toMs - steps * stepMs, toMs, stepSeconds };
        const points = await readHistory(database, { webhookId: webhook ?? null, ...span });
        if (json) return printJson(io, { step: stepSeconds, points });
        const shown = points.map(({ at, accepted, duplicates, rejected, limited, bytes }) => [
          stepSeconds === HOUR ? `${at.slice(0, 13).replace('T', ' ')}:00` : at.slice(0, 10),
          ...[accepted, duplicates, rejected, limited, bytes].map(String),
        ]);
        printText(io, table(['FROM', 'ACCEPTED', 'DUPLICATES', 'REJECTED', 'LIMITED', 'BYTES'], shown));
      }),
    );
}
