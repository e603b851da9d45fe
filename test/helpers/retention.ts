/** A database of each test with an agent, for what retention removes. */
import { randomUUID } from 'node:crypto';
import { beforeEach } from 'vitest';
import { DAY_MS } from '../../server/base/time/durations.ts';
import { createPartitions } from '../../server/store/retention/partitions.ts';
import { freshDatabase } from './postgres.ts';
import { ofEach } from './shared.ts';

export const nowMs = Date.now();
export const daysAgo = (days: number) => nowMs - days * DAY_MS;

export function retained() {
  const fresh = ofEach(freshDatabase);
  const agentId = randomUUID();
  beforeEach(async () => {
    for (const days of [8, 1]) await createPartitions(fresh.database, daysAgo(days));
    await fresh.sql(
      `insert into agents (id, name, lookup_id, secret_hash) values ($1, 'agent', 'aaaaaaaaaaaa', sha256('x'))`,
      agentId,
    );
  });
  return {
    fresh,
    agentId,
    async addWebhook(retentionDays: number | null, subscribed = true): Promise<string> {
      const id = randomUUID();
      await fresh.sql(`insert into webhooks (id, name, retention_days) values ($1, 'shop', $2)`, id, retentionDays);
      if (subscribed) await fresh.sql('insert into subscriptions (webhook_id, agent_id) values ($1, $2)', id, agentId);
      return id;
    },
  };
}
