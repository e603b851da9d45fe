/** GET /api/v1/agents/{id}/backlog: what waits over time, how fast it comes and ends, and when the agent will have caught up. */
import { expect, test } from 'vitest';
import { forecast, pointsOf } from '../../../../server/manage/api/agents/backlog.ts';
import { addAgentHistory } from '../../../../server/store/queries/agents/history.ts';
import { addHistory } from '../../../../server/store/queries/webhooks/history.ts';
import { addAgent, send, startAgentApp } from '../../../helpers/agents.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startAgentApp);
const NOW_MS = Date.UTC(2026, 0, 31, 12, 5, 0);
const at = (secondsAgo: number) => new Date(NOW_MS - secondsAgo * 1_000).toISOString();

test.each([
  [
    'caught up by the difference of the rates',
    600,
    [
      [300, 60, 300],
      [60, 0, 300],
    ],
    600 / (2 - 0.2),
  ],
  [
    'by the rate since it was started',
    600,
    [
      [300, 300, 0],
      [60, 0, 120],
    ],
    600 / (2 - 1),
  ],
  ['never when more comes', 10, [[300, 900, 600]], null],
  ['never when nothing ends', 10, [[300, 0, 0]], null],
  ['not when nothing waits', 0, [[300, 0, 600]], null],
  ['not in more than 30 days', 1e9, [[300, 0, 600]], null],
] as [string, number, number[][], number | null][])('a backlog is %s', (_what, pending, spans, seconds) => {
  const minutes = spans.map(([ago, came, ended]) => ({ at: at(ago!), came: came!, ended: ended! }));
  const { caught_up_at } = forecast(pending, minutes, NOW_MS - 300_000, NOW_MS);
  expect(caught_up_at).toBe(seconds === null ? null : new Date(NOW_MS + seconds * 1_000).toISOString());
});

test('the points are computed back from now, and never below zero', () => {
  const points = pointsOf(
    50,
    [
      { at: at(300), came: 40, ended: 10 },
      { at: at(1_200), came: 100, ended: 0 },
    ],
    NOW_MS,
  );
  expect(points).toHaveLength(97);
  expect(points.slice(-4).map(({ pending }) => pending)).toEqual([0, 0, 20, 50]);
});

test('counts what came for its webhooks since it is subscribed, and what ended', async () => {
  const viewer = await addPerson(app, 'viewer');
  const webhook = await app.addWebhook();
  const nowMs = Date.now();
  await addHistory(app.database, [{ webhookId: webhook.id, minuteMs: nowMs - 7_200_000, accepted: 1_000 }]);
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await addHistory(app.database, [{ webhookId: webhook.id, minuteMs: nowMs, accepted: 40 }]);
  await addAgentHistory(app.database, [{ agentId: agent.id, atMs: nowMs, acknowledged: 90, failed: 0, ended: 90 }]);
  const { body } = await viewer.api('GET', `/api/v1/agents/${agent.id}/backlog`);
  expect(body).toMatchObject({ pending: 1, exact: true, caught_up_at: expect.any(String) });
  expect(body.out_per_second).toBeGreaterThan(body.in_per_second);
  expect(body.points.at(-1).pending).toBe(1);
  expect(await viewer.page(`/agents/${agent.id}`)).toMatch(/<b>1<\/b> delivery waits[\s\S]*Caught up at <time/);
});
