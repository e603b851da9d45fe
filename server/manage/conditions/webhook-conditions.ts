/** The conditions of webhooks: refused requests, silence, and old secrets that are still used. */
import { HOUR_MS, MINUTE_MS } from '../../base/time/durations.ts';
import { type ConditionKind, conditionTable, LIMITED_SHARE_MIN, REJECTIONS_QUIET_MS } from '../../model/conditions.ts';
import { reasonTitle } from '../../model/signatures/diagnosis/reasons.ts';
import { retriesText, SOME_RETRY } from '../../model/signatures/retries.ts';
import type { Database } from '../../store/connect/pool.ts';
import {
  type RefusedRequests,
  type RejectionGroup,
  readRefusedRequests,
  readRejectionGroups,
  readUsedOldSecrets,
  WEBHOOKS_MAX,
} from '../../store/queries/alerts/condition-signs.ts';
import type { readSilentWebhooks } from '../../store/queries/alerts/silent-webhooks.ts';
import { type Held, lasting, PART_CHARACTERS_MAX, secondsSince, webhookOf } from './describe.ts';

/** Notes whether a list was cut at its limit, and returns it. */
export type Whole = <Row>(list: string, max: number, rows: Row[], kinds: readonly ConditionKind[]) => Row[];
const REFUSAL_KINDS = ['rejections', 'limited', 'failing'] as const;

type Silent = Awaited<ReturnType<typeof readSilentWebhooks>>[number];

/** The condition of a webhook that has had no event for too long. */
export function silentCondition(webhook: Silent, nowMs: number): Held {
  const { silent_since: since, expect_every_seconds: threshold } = webhook;
  return { ...lasting('silent', webhookOf(webhook), since, nowMs), threshold };
}

/** Webhooks whose senders still use the old secret after a rotation. */
export async function readOldSecretConditions(database: Database, whole: Whole, nowMs: number): Promise<Held[]> {
  const used = whole('old secrets', WEBHOOKS_MAX, await readUsedOldSecrets(database, nowMs), ['old_secret']);
  return used.map(({ ends_at, rotated_at: since, ...webhook }) => ({
    kind: 'old_secret',
    subject: webhookOf(webhook),
    value: -secondsSince(ends_at, nowMs),
    since,
  }));
}

/** What the refused requests of webhooks mean: rejected signatures, their rate limit, or nothing that verifies. */
export async function readRefusalConditions(database: Database, whole: Whole, nowMs: number): Promise<Held[]> {
  const all = whole('refused', WEBHOOKS_MAX, await readRefusedRequests(database, nowMs), REFUSAL_KINDS);
  const rejecting = all.filter((one) => one.rejected >= conditionTable.rejections.threshold && !isFixed(one, nowMs));
  const ids = rejecting.map(({ webhook_id }) => webhook_id);
  const groups = await readRejectionGroups(database, ids, nowMs - HOUR_MS);
  return [
    ...rejecting.flatMap((one) =>
      rejectionConditions(
        one,
        groups.filter(({ webhook_id }) => webhook_id === one.webhook_id),
      ),
    ),
    ...all.flatMap((requests): Held[] => {
      const { accepted, rejected, limited, refused, signature_scheme } = requests;
      const subject = webhookOf(requests);
      const fix = conditionTable.limited.fix.replace(SOME_RETRY, retriesText(signature_scheme));
      return [
        ...(isLimited(limited, accepted + rejected + limited)
          ? [{ kind: 'limited', subject, value: limited, fix } as const]
          : []),
        ...(isFailing(requests, nowMs)
          ? [{ kind: 'failing', subject, value: rejected + limited + refused } as const]
          : []),
      ];
    }),
  ];
}

/** The rejections of a webhook by reason. Only samples are grouped: the exact number is divided in proportion to the groups. */
function rejectionConditions(requests: RefusedRequests, groups: readonly RejectionGroup[]): Held[] {
  const subject = webhookOf(requests);
  const samples = groups.reduce((sum, { count }) => sum + count, 0);
  if (samples === 0) return [{ kind: 'rejections', subject, value: requests.rejected }];
  return groups
    .filter(({ newest_is_fixed }) => !newest_is_fixed)
    .map(({ reason, header, count, first_at }) => ({
      kind: 'rejections',
      subject,
      value: Math.max(count, Math.round((requests.rejected * count) / samples)),
      since: first_at,
      part: `${reason} ${header ?? ''}`.slice(0, PART_CHARACTERS_MAX),
      query: `&reason=${reason}`,
      cause: `${reasonTitle(reason)}${header === null ? '' : ` (${header})`}`,
    }));
}

/**
 * Whether the rejections of a webhook have ended. Either the newest was accepted or verifies now. Or requests have verified since, and none
 * was rejected for REJECTIONS_QUIET_MS and for twice the mean pause between rejections: a sender that is rejected now and then, while others
 * verify, does not count as fixed.
 */
function isFixed(requests: RefusedRequests, nowMs: number): boolean {
  const { rejected_minutes, newest_is_fixed } = requests;
  const [from, to] = [Date.parse(requests.rejected_from!), Date.parse(requests.rejected_to!)];
  if (newest_is_fixed && Date.parse(requests.newest_at!) >= to) return true;
  const pauseMs = rejected_minutes > 1 ? (to - from) / (rejected_minutes - 1) : 0;
  const quietMs = nowMs - (to + MINUTE_MS);
  const verifies = requests.verified_at !== null && Date.parse(requests.verified_at) > to;
  return verifies && quietMs >= Math.max(REJECTIONS_QUIET_MS, 2 * pauseMs);
}

/** Whether nothing verified in the hour, and no other condition says why. */
function isFailing(requests: RefusedRequests, nowMs: number): boolean {
  const { enabled, rejected, limited, verified_at } = requests;
  if (!enabled || verified_at !== null || isLimited(limited, rejected + limited)) return false;
  if (rejected > 0 && isFixed(requests, nowMs)) return false;
  return rejected < conditionTable.rejections.threshold;
}

function isLimited(limited: number, requests: number): boolean {
  return limited >= conditionTable.limited.threshold && limited / requests >= LIMITED_SHARE_MIN;
}
