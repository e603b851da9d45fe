import { expect, test } from 'vitest';
import { conditionCard } from '../../server/pages/conditions.ts';
import type { Condition } from '../../server/resources/conditions.ts';

const condition: Condition = {
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
  expect(conditionCard({ ...condition, url })).toMatchObject({
    severity: 'critical',
    title: 'Process 77 does not respond',
    detail: 'Its requests wait; the other processes serve.',
    action: 'Open the status',
    href,
    role,
  });
});
