/** POST /api/v1/agent/session and GET /api/v1/agent/me. */
import { z } from 'zod';
import { AGENT_SESSION_SECONDS, type AgentAuth, bearer } from '../auth/agent.ts';
import type { Database } from '../db/pool.ts';
import { type Agent, readAgentActivity } from '../db/queries/agents.ts';
import { countDeliveries } from '../db/queries/delivery-counts.ts';
import type { Exchange } from '../http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, ParsedBody } from '../http/parsed-body.ts';

/** The credential is sent as a bearer token or in the body. */
export const sessionSchema = z.strictObject({
  credential: z
    .string()
    .max(200)
    .optional()
    .describe('credential of the agent (wa_…), unless it is sent as the bearer token'),
});

/** Exchanges a credential for a session. Every call counts against the rate limit of agent authentication. */
export function createSession(auth: AgentAuth): (exchange: Exchange) => Promise<void> {
  return async (exchange) => {
    const body = new ParsedBody(exchange, OPEN_BODY_BYTES_MAX);
    if (!(await auth.count(exchange))) return body.release();
    const input = await body.json(sessionSchema);
    if (input === undefined) return;
    const agent = await auth.byCredential(exchange, input.credential ?? bearer(exchange));
    if (agent === null) return;
    exchange.json(200, {
      access_token: auth.session(agent, Date.now()),
      token_type: 'Bearer',
      expires_in: AGENT_SESSION_SECONDS,
      agent: described(agent),
    });
  };
}

/** Answers the agent and its pending deliveries. */
export function createMe(database: Database) {
  return async (exchange: Exchange, agent: Agent): Promise<void> => {
    const [{ pending }, [activity]] = await Promise.all([
      countDeliveries(database, { agentId: agent.id }),
      readAgentActivity(database, [agent.id]),
    ]);
    const since = activity?.waiting_since ?? null;
    const waitedMs = since === null ? null : Math.max(0, Date.now() - Date.parse(since));
    exchange.json(200, {
      ...described(agent),
      pending,
      oldest_pending_seconds: waitedMs === null ? null : Math.round(waitedMs / 1000),
    });
  };
}

function described({ id, name }: Agent): { id: string; name: string } {
  return { id, name };
}
