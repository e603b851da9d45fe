/** Entries of the audit log. */
import { z } from 'zod';
import { textOrNull } from './fields.ts';

/**
 * A member that does not have the shape that Weir writes is returned as null: the row was changed outside Weir, and verification
 * reports where.
 */
const loose = <T extends z.ZodType>(schema: T) => schema.nullable().catch(null);
const states = z.record(z.string(), z.unknown());

/** The author of a change. */
export const actorSchema = z.object({
  kind: z.string().describe('user, token, agent, command, system or anyone'),
  id: textOrNull('id of the user or agent'),
  name: z.string().describe('email of the user, or name of the agent or command'),
  token_id: textOrNull('id of the API token that was used; null: none'),
  address: textOrNull('address of the client'),
  request_id: textOrNull('id of the request in the log'),
  via: z.literal('mcp').optional().catch(undefined).describe('mcp: by a tool call of an AI agent; absent: otherwise'),
});

/** What was changed. */
export const targetSchema = z.object({
  kind: z.string().describe('e.g. webhook'),
  id: textOrNull('null: it has no id'),
  name: z.string().describe('name at that time'),
});

export const auditEntrySchema = z
  .object({
    number: z.int().describe('position in the log, starting at 1'),
    at: loose(z.string()).describe('time of the action'),
    action: loose(z.string()).describe('`<kind of target>.<verb>`'),
    actor: loose(actorSchema).describe('who performed the action'),
    target: loose(targetSchema).describe('the changed resource'),
    before: loose(states).describe('changed members before the action, without secrets'),
    after: loose(states).describe('changed members after the action'),
    hash: z.string().describe("SHA-256 of the previous entry's hash and this entry, in hex"),
  })
  .meta({ id: 'AuditEntry' });

export const auditVerdictSchema = z.object({
  intact: z.boolean().describe('true: no entry was changed or removed'),
  entries: z.int().describe('number of verified entries'),
  head: z
    .object({ number: z.int().describe('number of the entry'), hash: z.string().describe('hash of the entry, in hex') })
    .nullable()
    .describe('the last verified entry; store it outside the database'),
  first_broken: z.int().optional().describe('number of the first entry that is missing, changed or misplaced'),
  reason: z.string().optional().describe('what is wrong with that entry'),
});
