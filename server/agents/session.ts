/** POST /api/v1/agent/session and GET /api/v1/agent/me. */
import { z } from 'zod';
import { type AgentAuth, bearer, SESSION_SECONDS } from '../auth/agent.ts';
import type { Agent } from '../db/queries/read-agents.ts';
import type { Exchange } from '../http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, ParsedBody } from '../http/parsed-body.ts';

/** The credential comes as a bearer token, or in the body. */
export const sessionSchema = z.strictObject({ credential: z.string().max(200).optional() });

/** Changes a credential for a session; every call counts in the limit of agent authentication. */
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
      expires_in: SESSION_SECONDS,
      agent: described(agent),
    });
  };
}

/** The agent itself. */
export function me(exchange: Exchange, agent: Agent): void {
  exchange.json(200, described(agent));
}

function described({ id, name }: Agent): { id: string; name: string } {
  return { id, name };
}
