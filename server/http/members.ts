/** Members and parameters shared by many schemas, with their descriptions for the OpenAPI document. */
import { z } from 'zod';

/** Ids and times for the examples in the OpenAPI document. The ids of event and delivery encode received_at. */
export const example = {
  webhook_id: '01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a',
  agent_id: '01a1ffb5-9c41-7d52-a1c3-5b7e20d84f16',
  event_id: '01a1ffb6-1f30-7b8e-9d54-2c6a91e07b33',
  delivery_id: '01a1ffb6-1f30-7c22-8a0b-7d15f3c2e948',
  received_at: '2026-11-21T20:04:48.048Z',
  leased_until: '2026-11-21T20:05:48.298Z',
} as const;

/** @param thing e.g. `webhook`. */
export const idOf = (thing: string) => z.guid().describe(`id of the ${thing}`);

/** ISO 8601 in UTC. @param what e.g. `when it was created`. */
export const timeOf = (what: string) => z.iso.datetime().describe(what);

/** @param thing e.g. `agent`. */
export const nameOf = (thing: string) => z.string().describe(`name of the ${thing}`);

export const createdAt = timeOf('when it was created');
export const updatedAt = timeOf('when it was last changed');
export const receivedAt = timeOf('when Weir received it, to the millisecond');

export const sourceIp = z.string().describe('address of the sender, as determined from trusted proxies');
export const bodyBytes = z.number().describe('size of the body in bytes');
export const contentType = z.string().nullable().describe('Content-Type of the request; null: the request had none');
export const email = z.string().describe('email address, in lower case');
