/** `weir/client`: what an agent imports. Its tutorial is /docs/agents of the server. */
export { Agent, type AgentOptions, type Handler } from './agent.ts';
export type { AgentStatus } from './api.ts';
export type { ClaimedDelivery, DeliveredEvent, Delivery, EventHeaders, Settlement } from './delivery.ts';
export { Retry, WeirError, type WeirErrorCode } from './errors.ts';
export type { AgentNotice, Notify } from './notices.ts';
export type { RunCounts, RunOptions } from './options.ts';
