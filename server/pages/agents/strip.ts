/** The health strips of agents. */
import type { AgentQuarter } from '../../model/agents.ts';
import { quartersSince } from '../../model/history.ts';
import type { Outage } from '../../model/outages.ts';
import type { agentActivity } from '../activity.ts';
import { type Strip, stripOf, timesOf } from '../charts/strip.ts';
import { address, count } from '../show.ts';

type Active = Awaited<ReturnType<typeof agentActivity>>[string];

/** @param active with quarters; undefined: it could not be read */
export function agentStrip(active: Active | undefined, outages: readonly Outage[], nowMs: number): Strip | null {
  if (active?.quarters === undefined) return null;
  const { agent_id, quarters } = active;
  const hrefOf = (from: string, to: string) => address('/deliveries', { agent_id, from, to });
  const totals = { acknowledged: 0, failed: 0 };
  for (const { acknowledged, failed } of quarters) {
    totals.acknowledged += acknowledged;
    totals.failed += failed;
  }
  return stripOf({
    sinceMs: quartersSince(nowMs),
    quarters: quarters.map((quarter) => ({
      at: quarter.at,
      good: quarter.acknowledged,
      bad: quarter.failed,
      text: textOf(quarter),
      href: hrefOf(...timesOf(Date.parse(quarter.at), 0)),
    })),
    outages,
    quietHref: hrefOf,
    total: textOf(totals),
    trouble: 'failures',
  });
}

function textOf({ acknowledged, failed }: Pick<AgentQuarter, 'acknowledged' | 'failed'>): string {
  const failures = failed > 0 ? `, ${count(failed)} failed` : '';
  return `${count(acknowledged)} acknowledged${failures}`;
}
