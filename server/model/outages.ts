/** Outages of the database, as each machine saw them. */
import { z } from 'zod';
import { recordId, timeOf } from './fields.ts';

const whole = z.number().int().min(0);

const seen = {
  began_at: timeOf('when the database stopped answering this machine'),
  refused: whole.describe('requests to webhooks that were answered 5xx'),
  spooled: whole.describe('events that were written to the spool and answered 202'),
};

/** An outage that has not ended. */
export const ongoingOutageSchema = z.object(seen);
export type OngoingOutage = z.output<typeof ongoingOutageSchema>;

export const outageSchema = z.object({
  id: recordId.describe('the outage'),
  machine: z.string().describe('name of the machine'),
  ...seen,
  ended_at: timeOf('when the database answered again, or when Weir was stopped before'),
});
export type Outage = z.output<typeof outageSchema>;
