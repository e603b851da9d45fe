/** GET /: open issues, requests over time, webhooks, and the first steps of a new installation. A part that is not read in time says so. */
import { DAY_MS } from '../../base/time/durations.ts';
import { within } from '../../base/time/every.ts';
import type { HistoryCounts } from '../../model/history.ts';
import type { Database } from '../../store/connect/pool.ts';
import { type FirstSteps, readFirstSteps } from '../../store/queries/start.ts';
import { sparkFrame, sparkOf } from '../charts/chart.ts';
import { errorShare, readChanges, readOutagesSince, totalCounts, trafficOf, withRefused } from '../charts/traffic.ts';
import { namesOf } from '../names.ts';
import { PART_MS_MAX, type Page, partOf, view } from '../page.ts';
import { worstFirst } from './issues.ts';

/** By the parameter `range`: the span, the step of its points, and how the page names it. */
const ranges = {
  '24h': { days: 1, step: 1_800, text: 'the last 24 hours', short: '24 h', stepText: 'half hour' },
  '7d': { days: 7, step: 21_600, text: 'the last 7 days', short: '7 d', stepText: '6 hours' },
  '30d': { days: 30, step: 86_400, text: 'the last 30 days', short: '30 d', stepText: 'day' },
} as const;
type Range = keyof typeof ranges;

const WEBHOOKS_SHOWN = 25;
/** Issues that are read, and how many of them are shown. */
const ISSUES_READ = '200';
const ISSUES_SHOWN = 6;

export const overview: Page = async ({ call, query }) => {
  const nowMs = Date.now();
  const given = query.get('range') ?? '';
  const range: Range = Object.hasOwn(ranges, given) ? (given as Range) : '24h';
  const { days, step } = ranges[range];
  const fromMs = nowMs - days * DAY_MS;
  const [issues, traffic, webhooks, outages, changes] = await Promise.all([
    partOf(call('listIssues', { query: { state: 'open', limit: ISSUES_READ } })),
    partOf(call('showHistory', { query: { from: new Date(fromMs).toISOString(), step: String(step) } })),
    partOf(call('listWebhookHistory', { query: { limit: String(WEBHOOKS_SHOWN) } })),
    readOutagesSince(call, fromMs),
    readChanges(call, fromMs, null),
  ]);
  const known = Object.fromEntries((webhooks?.items ?? []).map(({ webhook_id, name }) => [webhook_id, name]));
  const named = await within(PART_MS_MAX, namesOf(call, 'webhooks', Object.keys(known)));
  return view('overview', 'Overview', {
    now: nowMs,
    issues: issues && worstFirst(issues.items),
    issuesShown: ISSUES_SHOWN,
    more: issues?.next_cursor != null,
    traffic: traffic && trafficOf(traffic.points, ranges[range].text, outages, null, changes),
    unaccepted: unacceptedOf(traffic?.points ?? []),
    range,
    ranges: Object.entries(ranges).map(([name, { short }]) => ({ name, short })),
    rangeText: ranges[range].text,
    stepText: ranges[range].stepText,
    webhooks: webhooks?.items.map((webhook) => ({
      ...withRefused(webhook),
      spark: sparkOf(webhook.hours),
      errors: errorShare(webhook),
    })),
    sparkFrame,
    names: { ...known, ...named },
  });
};

/** Above this share of unaccepted requests the page says that something is wrong, also without an issue. */
const UNACCEPTED_SHARE_MAX = 0.05;

function unacceptedOf(points: readonly HistoryCounts[]) {
  const { accepted, duplicates, rejected, limited, refused } = withRefused(totalCounts(points));
  const all = rejected + limited + refused;
  const isMany = all > UNACCEPTED_SHARE_MAX * (accepted + duplicates + all);
  return { all, isMany, share: errorShare(totalCounts(points)), rejected, limited, refused };
}

/** The steps, or null once webhook, event, agent and acknowledged delivery are there: the steps are not read again after that. */
type Start = () => Promise<FirstSteps | null>;

/** Returns a reader of the first steps. A colleague is optional: an installation of one person is complete without one. */
export function createStart(database: Database): Start {
  let isDone = false;
  return async () => {
    if (isDone) return null;
    const steps = await readFirstSteps(database);
    isDone = steps.webhook !== null && steps.event && steps.agent !== null && steps.acknowledged;
    return isDone ? null : steps;
  };
}

/** The page with the first steps in its data; without them if they cannot be read in time. */
export function withStart(page: Page, start: Start): Page {
  return async (request) => {
    const [reply, steps = null] = await Promise.all([page(request), within(PART_MS_MAX, start())]);
    return reply.kind === 'view' ? { ...reply, data: { ...reply.data, start: steps } } : reply;
  };
}
