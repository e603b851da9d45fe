/** What people give and see of an agent. */
import { z } from 'zod';
import { nameText as name, recordIds } from './input.ts';

const webhookIds = recordIds.describe('webhooks whose events it gets');

export const agentInput = {
  create: z.strictObject({ name, webhook_ids: webhookIds.default([]) }),
  /** RFC 7396: what is absent stays. */
  update: z.strictObject({ name, webhook_ids: webhookIds }).partial(),
};

export type NewAgent = z.output<typeof agentInput.create>;
export type AgentPatch = z.output<typeof agentInput.update>;

export const agentSchema = z.object({
  id: z.guid(),
  name: z.string(),
  revoked: z.boolean().describe('true: its credential has ended for good; its deliveries stay'),
  webhook_ids: z.array(z.guid()).describe('webhooks whose events it gets'),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});
