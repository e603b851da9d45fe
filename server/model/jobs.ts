/** Jobs: replays of many events. */
import { z } from 'zod';
import { createdAt, example, idOf, textOrNull, timeOf, timeOrNull } from './fields.ts';

/** Limit on unfinished jobs. */
export const JOBS_UNFINISHED_MAX = 100;
/** Days for which finished jobs are kept. */
export const JOBS_KEPT_DAYS = 30;

export const jobSchema = z
  .object({
    id: idOf('job'),
    kind: z.literal('replay_events').describe('what the job does'),
    state: z.enum(['queued', 'running', 'done', 'cancelled', 'failed']).describe('queued and running are unfinished'),
    filter: z.record(z.string(), z.unknown()).describe('which events, as in the request'),
    agent_ids: z
      .array(z.guid())
      .nullable()
      .describe('agents that get the events; null: all that are subscribed when an event is replayed'),
    beyond_subscriptions: z.boolean().describe('true: also what subscriptions and filters exclude'),
    until: timeOf('events received from this time on are not included'),
    progress: z.number().describe('0 to 1, by the time of the events'),
    replayed_to: timeOrNull('time up to which events were read; null: none yet'),
    events: z.number().describe('events replayed'),
    deliveries: z.number().describe('deliveries created'),
    reason: textOrNull('why it failed; null: it has not'),
    created_by: z
      .object({ kind: z.string().describe('user, token or command'), name: z.string().describe('email or user name') })
      .describe('who created it'),
    created_at: createdAt,
    started_at: timeOrNull('when it began; null: it has not'),
    updated_at: timeOf('when its last batch was committed'),
    finished_at: timeOrNull('when it was done, cancelled or failed; null: it is unfinished'),
  })
  .meta({
    id: 'Job',
    examples: [
      {
        id: '0b9f6a52-7c1d-4e0a-9f35-2d8c4be17a60',
        kind: 'replay_events',
        state: 'running',
        filter: { webhook_id: example.webhook_id, from: '2026-11-20T00:00:00.000Z' },
        agent_ids: null,
        beyond_subscriptions: false,
        until: '2026-11-22T08:00:00.000Z',
        progress: 0.42,
        replayed_to: example.received_at,
        events: 4_200,
        deliveries: 8_400,
        reason: null,
        created_by: { kind: 'user', name: 'ada@example.org' },
        created_at: '2026-11-22T08:00:00.000Z',
        started_at: '2026-11-22T08:00:01.102Z',
        updated_at: '2026-11-22T08:00:09.730Z',
        finished_at: null,
      },
    ],
  });
