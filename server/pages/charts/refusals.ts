/** Refused requests that no rejection and no rate limit explains: how many by status, why, and what to do. */
import type { HistoryCounts } from '../../model/history.ts';
import { statusOfRefusal } from '../../model/history.ts';
import { SOME_RETRY } from '../../model/signatures/retries.ts';

const texts = {
  disabled: {
    title: 'webhook disabled',
    fix: 'Enable the webhook, or have the sender stop.',
  },
  length_required: {
    title: 'no Content-Length',
    fix: 'The sender sends chunked bodies: set CHUNKED_BODIES=accept.',
  },
  too_large: {
    title: 'payload too large',
    fix: 'Raise the payload limit of the webhook or WEBHOOK_MAX_PAYLOAD_BYTES, or have the sender send less.',
  },
  unavailable: {
    title: 'could not be stored',
    fix: 'Set INGEST_SPOOL_DIR to keep events during an outage of the database.',
  },
} as const satisfies Record<keyof typeof statusOfRefusal, object>;

type Refusal = { status: number; title: string; fix: string; count: number };

/** The refusals that occurred, those with most requests first. @param retries whether the sender repeats them; default: of any sender */
export function refusalsOf(points: readonly HistoryCounts[], retries = SOME_RETRY): Refusal[] {
  return (Object.keys(statusOfRefusal) as (keyof typeof statusOfRefusal)[])
    .map((member) => ({
      status: statusOfRefusal[member],
      ...texts[member],
      ...(member === 'unavailable' && { fix: `${retries} ${texts.unavailable.fix}` }),
      count: points.reduce((sum, point) => sum + point[member], 0),
    }))
    .filter(({ count }) => count > 0)
    .sort((one, other) => other.count - one.count);
}
