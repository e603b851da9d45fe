/**
 * Requests to all webhooks or to one over time: the chart, its totals, and the share that was not accepted. The chart also marks outages of
 * the database and, for users who may read the audit log, changes.
 */
import { type HistoryCounts, historyColumns, noCounts } from '../../model/history.ts';
import type { Outage } from '../../model/issues.ts';
import { type Call, partOf } from '../page.ts';
import { address, count, utc } from '../show.ts';
import { chart } from './chart.ts';

const chartFrame = { width: 900, height: 182 };

/** `refused`: requests refused for another reason than the signature or the rate limit. */
type Counts = HistoryCounts & { refused: number };
export const answerWords = { accepted: 'accepted', rejected: 'rejected', limited: 'rate limited', refused: 'refused' };
export const answers = Object.keys(answerWords) as (keyof typeof answerWords)[];

/** Smallest share of the height at which a value above 0 is drawn: 3 of 10,000 requests would not be seen. */
const DRAWN_SHARE_MIN = 0.02;

/** The counts with `refused`. */
export function withRefused<Counted extends HistoryCounts>(counted: Counted): Counted & Counts {
  const { disabled, length_required, too_large, unavailable } = counted;
  return { ...counted, refused: disabled + length_required + too_large + unavailable };
}

/**
 * The chart and the counts of its points. The interval that is not over is marked.
 * @param text the span in words, such as “the last 24 hours”
 * @param webhookId null: all webhooks
 */
export function trafficOf(
  counted: readonly ({ at: string } & HistoryCounts)[],
  text: string,
  outages: readonly Outage[],
  webhookId: string | null,
  changes: readonly TrafficChange[] = [],
) {
  const stepMs = Date.parse(counted[1]!.at) - Date.parse(counted[0]!.at);
  const points = counted.map((point) => {
    const at = { webhook_id: webhookId, from: point.at, to: new Date(Date.parse(point.at) + stepMs).toISOString() };
    return { ...withRefused(point), events: address('/events', at), rejections: address('/rejections', at) };
  });
  const greatest = Math.max(...points.flatMap((point) => answers.map((name) => point[name])));
  const totals = answers.map((name) => points.reduce((sum, point) => sum + point[name], 0));
  const busiest = points.reduce((most, point) => (point.accepted > most.accepted ? point : most), points[0]!);
  const peak = busiest.accepted === 0 ? '' : `; most accepted at ${busiest.at.slice(0, 16).replace('T', ' ')} UTC`;
  const ends: [number, number] = [Date.parse(points[0]!.at), Date.parse(points.at(-1)!.at)];
  return {
    points,
    accepted: totals[0]!,
    changes,
    marks: marksOf(changes, ends),
    outages: outages.filter(isFelt),
    bands: [...bandsOf(outages, ends), { from: (points.length - 2) / (points.length - 1), to: 1, running: true }],
    chart: chart(
      Object.fromEntries(
        answers.map((name) => [answerWords[name], points.map((point) => drawn(point[name], greatest))]),
      ),
      points.length,
      chartFrame,
    ),
    legend: answers.map((name, i) => ({ name: answerWords[name], total: totals[i]! })),
    label: `Requests in ${text}: ${answers.map((name, i) => `${count(totals[i]!)} ${answerWords[name]}`).join(', ')}${peak}`,
  };
}

const drawn = (value: number, greatest: number) => (value > 0 ? Math.max(value, greatest * DRAWN_SHARE_MIN) : 0);

/** The sums of the counts. */
export function totalCounts(points: readonly HistoryCounts[]): HistoryCounts {
  const sum = noCounts();
  for (const point of points) for (const name of historyColumns) sum[name] += point[name];
  return sum;
}

/** Share of requests that were not accepted, in percent, as text; '–' without requests. */
export function errorShare(counts: HistoryCounts): string {
  const { accepted, duplicates, rejected, limited, refused } = withRefused(counts);
  const all = accepted + duplicates + rejected + limited + refused;
  const percent = (100 * (rejected + limited + refused)) / all;
  if (all === 0) return '–';
  return percent === 0 ? '0 %' : percent < 0.1 ? '< 0.1 %' : `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

const OUTAGES_MAX = '20';

/**
 * Reads the newest outages since a time; none when they cannot be read.
 * @param fromMs Unix milliseconds.
 */
export async function readOutagesSince(call: Call, fromMs: number): Promise<Outage[]> {
  const query = { from: new Date(fromMs).toISOString(), limit: OUTAGES_MAX };
  return (await partOf(call('listOutages', { query })))?.items ?? [];
}

/** An outage during which requests came. */
function isFelt({ refused, spooled }: Outage): boolean {
  return refused + spooled > 0;
}

/**
 * Where outages are in a chart: shares of its width, from 0 to 1. An outage after the last point is at the right edge. `first` and `last`:
 * Unix milliseconds of the first and the last point.
 */
export function bandsOf(outages: readonly Outage[], [first, last]: [number, number]): { from: number; to: number }[] {
  const share = (iso: string) => Math.min(1, Math.max(0, (Date.parse(iso) - first) / (last - first)));
  return outages
    .map(({ began_at, ended_at }) => ({ from: share(began_at), to: share(ended_at) }))
    .filter(({ to }) => to > 0);
}

const CHANGES_MAX = '50';
/** Kinds of changes that may affect traffic; a test request does not. */
const KINDS = ['webhook.', 'agent.'];
const NO_CHANGE = new Set(['webhook.test']);
/** The action that records a new build. */
const DEPLOY = 'build.start';

interface TrafficChange {
  at: string;
  text: string;
  /** Where the requests or deliveries of the time are listed. */
  href: string;
}

/**
 * Reads the newest changes and deploys since a time; none for users who may not read them.
 * @param targetId changes of this webhook; null: of all webhooks and agents
 */
export async function readChanges(call: Call, fromMs: number, targetId: string | null): Promise<TrafficChange[]> {
  const from = new Date(fromMs).toISOString();
  const changes = targetId === null ? KINDS.map((action) => ({ action })) : [{ target_id: targetId }];
  const lists = await Promise.all(
    [...changes, { action: DEPLOY }].map((query) =>
      partOf(call('listAudit', { query: { from, ...query, limit: CHANGES_MAX } })),
    ),
  );
  return lists
    .flatMap((list) => list?.items ?? [])
    .flatMap(({ number, at, action, actor, target }) =>
      at === null || action === null || NO_CHANGE.has(action)
        ? []
        : [
            {
              at,
              text:
                action === DEPLOY
                  ? `Deploy of ${target?.name}`
                  : `${actor?.name ?? 'Weir'} ${verbOf(action)} ${target?.name ?? ''}`.trim(),
              href: `/audit/${number}`,
            },
          ],
    );
}

/** Where changes are in a chart: shares of its width, from 0 to 1. `first` and `last`: Unix milliseconds of the first and the last point. */
function marksOf(changes: readonly TrafficChange[], [first, last]: [number, number]) {
  return changes.flatMap(({ at, text }) => {
    const share = (Date.parse(at) - first) / (last - first);
    return share < 0 ? [] : [{ at: Math.min(1, share), text: `${text}, ${utc(at)}` }];
  });
}

/** Phrases for actions, written before the name of the target. For other actions `verbOf` makes the past tense. */
const verbs: Readonly<Record<string, string>> = {
  accept_invitation: 'accepted the invitation of',
  began: 'reported',
  cancel: 'cancelled',
  dismiss: 'dismissed',
  end_previous_secret: 'ended the old secret of',
  expire: 'removed the temporary',
  extend: 'extended the lease of',
  fix: 'fixed',
  link: 'linked to the identity provider',
  password: 'changed the password of',
  recheck: 'checked again',
  reset_password: 'reset the password of',
  revoke_invitation: 'revoked the invitation of',
  role_ended: 'ended the role of',
  rotate: 'rotated the credential of',
  rotate_secret: 'rotated the secret of',
  sign_in: 'signed in',
  sign_in_failed: 'failed to sign in as',
  sign_out: 'signed out',
  sign_out_everywhere: 'signed out everywhere',
  test: 'tested',
  undo: 'undid an action on',
  update: 'changed',
  wake: 'ended the snooze of',
};

/** `rotated the secret of`, from `webhook.rotate_secret`. */
export function verbOf(action: string): string {
  const verb = action.slice(action.indexOf('.') + 1);
  return verbs[verb] ?? verb.replace(/(e|ed)?$/, 'ed').replaceAll('_', ' ');
}
