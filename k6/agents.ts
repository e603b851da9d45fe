/**
 * Agents test: signed requests at a constant arrival rate, and AGENTS virtual users that claim their deliveries and acknowledge them. Every
 * event must be acknowledged, with a 95th percentile from storing it to claiming it below DELIVERY_P95_MS.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> -e WEIR_CREDENTIAL=<wa_…> \
 *       -e RATE=200 -e DURATION=1m -e AGENTS=4 -e CLAIM_MAX=20 k6/agents.ts
 *
 * WEIR_CREDENTIAL is that of an agent of this webhook without pending deliveries (agent add --webhook). The clock of this machine must agree
 * with that of the server.
 */
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { type Claimed, openAgent } from './lib/agent.ts';
import { planAgents } from './lib/plans.ts';
import { preflight, sender } from './lib/post.ts';
import type { Data } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planAgents(__ENV);
const { BODY_BYTES, CLAIM_MAX, WARM_UP } = plan.settings;
const send = sender(plan.target, BODY_BYTES);
const agent = openAgent(plan.target.url, plan.settings.WEIR_CREDENTIAL);

const acknowledged = new Counter('weir_acknowledged');
const lost = new Counter('weir_lost_leases');
const delivery = new Trend('weir_delivery_ms', true);

export const options = plan.options;
export const handleSummary = (data: Data) => summarize(plan, data, new Date());

/** Checks the agent too. */
export function setup() {
  agent.check();
  return preflight(plan);
}

/** One signed request. */
export function load(): void {
  send();
}

/** One claim, which waits for deliveries, and one acknowledgement of all that it returned. Events of the warm-up are not timed. */
export function consume(): void {
  const claimed = agent.claim(CLAIM_MAX);
  const nowMs = Date.now();
  const times = claimed.map(({ event }: Claimed) => Date.parse(event.received_at));
  for (const ms of times) if (ms > exec.scenario.startTime + WARM_UP) delivery.add(nowMs - ms);
  if (claimed.length === 0) return;
  const { done, gone } = agent.ack(claimed.map(({ receipt }: Claimed) => receipt));
  acknowledged.add(done.length);
  lost.add(gone.length);
}
