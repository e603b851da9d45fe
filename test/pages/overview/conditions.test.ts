import { expect, test } from 'vitest';
import type { Condition } from '../../../server/model/condition-list.ts';
import type { ShownAlert } from '../../../server/pages/overview/alerts.ts';
import { conditionCard, otherAlerts } from '../../../server/pages/overview/conditions.ts';

const condition: Condition = {
  id: 'process:77',
  snoozed: null,
  kind: 'process',
  severity: 'critical',
  text: 'Process 77 does not respond.',
  fix: 'Its requests wait; the other processes serve.',
  url: 'https://weir.example.org/status#processes',
  webhook_id: null,
  agent_id: null,
  name: '77',
  count: null,
  expect_every_seconds: null,
  since: null,
};

test.each([
  ['https://weir.example.org/status#processes', '/status#processes', 'operator'],
  ['https://weir.example.org/deliveries?state=dead&agent_id=a', '/deliveries?state=dead&agent_id=a', 'viewer'],
])('a card links to %s of the Weir that shows it, for users who may open it', (url, href, role) => {
  expect(conditionCard({ ...condition, url }, [])).toMatchObject({
    severity: 'critical',
    title: 'Process 77 does not respond',
    detail: 'Its requests wait; the other processes serve.',
    action: 'Open the status',
    href,
    role,
    alertSince: null,
  });
});

const alertOf = (more: Partial<ShownAlert>): ShownAlert => ({
  id: '01a1ffb6-2a10-7c44-8f3e-0d5b7e91c2aa',
  condition: 'pending',
  subject: { kind: 'agent', id: 'a', name: 'billing' },
  text: '',
  since: '2026-11-22T11:00:00Z',
  began_at: '2026-11-22T11:05:00Z',
  ended_at: null,
  value: 372,
  threshold: 300,
  unit: 'seconds',
  url: 'https://weir.example.org/agents/a',
  requests: [],
  href: '/agents/a',
  role: 'viewer',
  ...more,
});

test.each([
  ['of its agent', { kind: 'pending', agent_id: 'a' }, {}, true],
  ['of another agent', { kind: 'pending', agent_id: 'b' }, {}, false],
  ['of another condition of its agent', { kind: 'dead_letters', agent_id: 'a' }, {}, false],
  [
    'of its machine',
    { kind: 'spool', name: 'one' },
    { condition: 'spool', subject: { kind: 'machine', id: 'one-folder', name: 'one' } },
    true,
  ],
] as const)('the card shows the active alert %s, and the list of alerts then does not', (_, given, alert, shown) => {
  const [found, active, ended] = [
    { ...condition, ...given },
    alertOf(alert),
    alertOf({ ...alert, ended_at: '2026-11-22T11:30:00Z' }),
  ];
  expect(conditionCard(found, [active]).alertSince).toBe(shown ? active.began_at : null);
  expect(otherAlerts([active, ended], [found])).toEqual(shown ? [ended] : [active, ended]);
});
