/** Conditions of webhooks whose requests are refused: rejected signatures, rate limits, or nothing that verifies. */
import { MINUTE_MS } from '../../base/time/durations.ts';
import { conditionTable, LIMITED_SHARE_MIN, REJECTIONS_QUIET_MS } from '../../model/conditions.ts';
import { retriesText, SOME_RETRY } from '../../model/signatures/retries.ts';
import type { RefusedRequests } from '../../store/queries/alerts/condition-signs.ts';
import { type Held, webhookOf } from './held.ts';

/** @param requests of the last hour, by webhook. @param nowMs Unix milliseconds */
export function refusalConditions(requests: readonly RefusedRequests[], nowMs: number): Held[] {
  const held = (
    kind: Held['kind'],
    holds: (one: RefusedRequests) => boolean,
    countOf: (one: RefusedRequests) => number,
  ) => requests.filter(holds).map((one): Held => ({ kind, subject: webhookOf(one), value: countOf(one) }));
  return [
    ...held(
      'rejections',
      (one) => one.rejected >= conditionTable.rejections.threshold && !isFixed(one, nowMs),
      ({ rejected }) => rejected,
    ),
    ...requests
      .filter(({ accepted, rejected, limited }) => isLimited(limited, accepted + rejected + limited))
      .map((one): Held => {
        const fix = conditionTable.limited.fix.replace(SOME_RETRY, retriesText(one.signature_scheme));
        return { kind: 'limited', subject: webhookOf(one), value: one.limited, fix };
      }),
    ...held(
      'failing',
      (one) => isFailing(one, nowMs),
      ({ rejected, limited, refused }) => rejected + limited + refused,
    ),
  ];
}

/**
 * Whether the rejections of a webhook have ended: the newest was accepted or verifies now, or requests verify since, and none was rejected
 * for REJECTIONS_QUIET_MS and for twice the mean pause between them. A sender that is rejected now and then, beside others that verify,
 * is therefore not fixed.
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
