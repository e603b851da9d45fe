import { expect, test } from 'vitest';
import { problemCard } from '../../server/pages/problems.ts';

const NOW_MS = Date.parse('2026-11-22T12:00:00Z');
const none = { webhook_id: null, agent_id: null, name: null, count: null, since: null, expect_every_seconds: null };
const of = (given: Partial<Parameters<typeof problemCard>[0]>) =>
  problemCard({ kind: 'process', ...none, ...given }, NOW_MS);

test.each([
  [{ kind: 'process', name: '77' }, 'bad', 'Process 77 does not respond', '/status#processes'],
  [{ kind: 'rate_limits' }, 'warn', 'Rate limits are off', '/status'],
  [
    { kind: 'dead_letters', agent_id: 'a', name: 'crm-sync', count: 12 },
    'bad',
    '12 dead letters in crm-sync',
    '/deliveries?state=dead&agent_id=a',
  ],
  [
    { kind: 'pending', agent_id: 'a', name: 'crm-sync', since: '2026-11-22T11:33:00Z' },
    'warn',
    'crm-sync: the oldest delivery waits for 27 min',
    '/agents/a',
  ],
  [
    { kind: 'rejections', webhook_id: 'w', name: 'Linear', count: 4_000 },
    'bad',
    'Linear: 4,000 rejected in the last hour',
    '/rejections?webhook_id=w',
  ],
  [
    { kind: 'limited', webhook_id: 'w', name: 'Linear', count: 40 },
    'warn',
    'Linear: 40 rate limited in the last hour',
    '/webhooks/w',
  ],
  [
    { kind: 'filter', agent_id: 'a', name: 'crm-sync', count: 1 },
    'warn',
    '1 filter of crm-sync is not valid in this version or suspended',
    '/agents/a',
  ],
  [{ kind: 'expiring', count: 3 }, 'bad', '3 undelivered events are removed within a day', '/deliveries?state=pending'],
  [{ kind: 'archive', count: 2 }, 'warn', '2 tables of old days cannot be archived', '/status#doctor'],
  [
    { kind: 'silent', webhook_id: 'w', name: 'Stripe', since: '2026-11-22T09:00:00Z' },
    'warn',
    'Stripe is silent for 3 h',
    '/webhooks/w',
  ],
] as const)('the problem %j has this sentence and page', (problem, level, title, href) => {
  const role = href.startsWith('/status') ? 'operator' : 'viewer';
  expect(of(problem)).toMatchObject({ level, title, href, role });
});
