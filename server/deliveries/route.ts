/** Wraps handlers of agent-only routes: authenticates the agent and parses the body. */
import type { z } from 'zod';
import type { AgentAuth } from '../auth/agent.ts';
import type { Agent } from '../db/queries/agents.ts';
import type { Exchange } from '../http/exchange.ts';
import { ParsedBody } from '../http/parsed-body.ts';

type Handler = (exchange: Exchange) => Promise<void>;

/** Wraps a handler without a request body. */
export function forAgent(auth: AgentAuth, handle: (exchange: Exchange, agent: Agent) => void | Promise<void>): Handler {
  return async (exchange) => {
    const agent = await auth.agent(exchange);
    if (agent !== null) await handle(exchange, agent);
  };
}

/** Wraps a handler with a JSON body. The body is read while the agent is looked up. */
export function forAgentWith<Input>(
  auth: AgentAuth,
  schema: z.ZodType<Input>,
  handle: (exchange: Exchange, agent: Agent, input: Input) => void | Promise<void>,
): Handler {
  return async (exchange) => {
    const body = new ParsedBody(exchange);
    const agent = await auth.agent(exchange);
    if (agent === null) return body.release();
    const input = await body.json(schema);
    if (input !== undefined) await handle(exchange, agent, input);
  };
}
