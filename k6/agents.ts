/**
 * Agents test: signed requests at a constant arrival rate, and AGENTS virtual users that claim their deliveries and acknowledge them. Every
 * event must be acknowledged, with a 95th percentile from storing it to claiming it below DELIVERY_P95_MS.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> -e WEIR_CREDENTIAL=<wa_…> \
 *       -e RATE=200 -e DURATION=1m -e AGENTS=4 -e CLAIM_MAX=20 k6/agents.ts
 *
 * WEIR_CREDENTIAL is that of an agent of this webhook without pending deliveries (agent add --webhook). The clock of this machine must agree with
 * that of the server. All requests come from one address: give the webhook a limit of its own (webhook add --rate-limit 100000000).
 */
import { Counter, Trend } from 'k6/metrics';
import { type Claimed, openAgent } from './lib/agent.ts';
import { agentsOptions } from './lib/options.ts';
import { sender } from './lib/post.ts';
import { readAgentsSettings } from './lib/settings.ts';

const settings = readAgentsSettings(__ENV);
const send = sender(settings);
const agent = openAgent(settings);

export const options = agentsOptions(settings);

const acknowledged = new Counter('weir_acknowledged');
const lost = new Counter('weir_lost_leases');
const delivery = new Trend('weir_delivery_ms', true);

export function load(): void {
  send();
}

/** One claim, which waits for deliveries, and one acknowledgement of all that it returned. */
export function consume(): void {
  const claimed = agent.claim(settings.claimMax);
  const nowMs = Date.now();
  for (const { event } of claimed) delivery.add(nowMs - Date.parse(event.received_at));
  if (claimed.length === 0) return;
  const { done, gone } = agent.ack(claimed.map(({ receipt }: Claimed) => receipt));
  acknowledged.add(done.length);
  lost.add(gone.length);
}
