/** Serving processes that died: they exited, were killed, or hung, and Weir had not ended them. Each machine knows its own. */
import { z } from 'zod';
import { timeOf } from './fields.ts';

const whole = z.number().int().min(0);

/** Deaths that are kept, the newest. */
export const DEATHS_KEPT = 20;
/** A condition names a death for this long. */
export const DIED_MINUTES = 60;

const deathSchema = z.object({
  at: timeOf('when it ended'),
  pid: whole.describe('process id'),
  reason: z.string().describe('signal that ended it, exit code, or why Weir killed it'),
  ran_ms: whole.describe('how long it had run'),
  recovered_ms: whole
    .nullable()
    .describe('how long it took until all processes served again; 0: all served; null: not yet'),
});
export type ProcessDeath = z.output<typeof deathSchema>;

export const processDeathsSchema = z
  .object({
    total: whole.describe('since the start of Weir on this machine'),
    newest: z.array(deathSchema).describe(`the last ${DEATHS_KEPT}, newest first`),
  })
  .describe('processes of this machine that exited, were killed or hung, and that Weir had not ended');
export type ProcessDeaths = z.output<typeof processDeathsSchema>;

export const noDeaths: ProcessDeaths = { total: 0, newest: [] };
