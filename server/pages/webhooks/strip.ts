/** The health strips of webhooks. */
import { quartersSince, type WebhookQuarter } from '../../model/history.ts';
import type { Outage } from '../../model/outages.ts';
import type { webhookHistory } from '../activity.ts';
import { type Quarter, type Strip, stripOf, timesOf } from '../charts/strip.ts';
import { address, count } from '../show.ts';

const words = { accepted: 'accepted', rejected: 'rejected', limited: 'rate limited', refused: 'refused' };
const names = Object.keys(words) as (keyof typeof words)[];
type Counts = Pick<WebhookQuarter, keyof typeof words>;
type Counted = Awaited<ReturnType<typeof webhookHistory>>[string];

/** @param counted with quarters; undefined: it could not be read */
export function webhookStrip(counted: Counted | undefined, outages: readonly Outage[], nowMs: number): Strip | null {
  if (counted?.quarters === undefined) return null;
  const id = counted.webhook_id;
  const sinceMs = quartersSince(nowMs);
  const totals = { accepted: 0, rejected: 0, limited: 0, refused: 0 };
  for (const quarter of counted.quarters) for (const name of names) totals[name] += quarter[name];
  return stripOf({
    sinceMs,
    quarters: counted.quarters.map((quarter) => quarterOf(id, quarter)),
    outages,
    quietHref: (from, to) => address('/events', { webhook_id: id, from, to }),
    total: textOf(totals),
    trouble: 'refusals',
  });
}

function quarterOf(webhookId: string, counted: WebhookQuarter): Quarter {
  const { at, accepted, rejected, limited, refused } = counted;
  const [from, to] = timesOf(Date.parse(at), 0);
  const bad = rejected + limited + refused;
  const list = rejected > 0 ? '/rejections' : '/events';
  // Refusals for other reasons are counted and not kept.
  const href =
    rejected === 0 && refused > 0
      ? address(`/webhooks/${webhookId}`, { from, to })
      : address(list, { webhook_id: webhookId, from, to });
  return { at, good: accepted, bad, text: textOf(counted), href };
}

function textOf(counts: Counts): string {
  const occurring = names.filter((name) => name === 'accepted' || counts[name] > 0);
  return occurring.map((name) => `${count(counts[name])} ${words[name]}`).join(', ');
}
