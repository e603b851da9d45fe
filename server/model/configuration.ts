/** The configuration as a file: webhooks and agents with their members, by id. `weir export` writes it, and `weir apply` reads it. */
import { z } from 'zod';
import { agentFields, agentInput } from './agents.ts';
import { recordId } from './fields.ts';
import type { Field, Table } from './table.ts';
import { webhookFields } from './webhooks.ts';

const RESOURCES_MAX = 100_000;

/** Members with secrets. The file has references, which the command resolves. */
export const secretMembers = ['secret', 'verify_token'] as const;
export type SecretMember = (typeof secretMembers)[number];

/** Members that the file leaves out: those of one installation, a pause, and subscriptions, which have their own form in the file. */
const leftOut: ReadonlySet<string> = new Set([
  ...['id', 'agent_ids', 'webhook_ids', 'generate_secret', 'cell', 'temporary', 'paused'],
  ...secretMembers,
]);

const reference = z
  .union([
    z.strictObject({ env: z.string().min(1).describe('name of the environment variable that contains it') }),
    z.strictObject({ file: z.string().min(1).describe('file that contains it, relative to the folder of this one') }),
  ])
  .describe('where the command that applies the file reads it');
export type Reference = z.output<typeof reference>;

/** Members of a resource in the file, other than id and secrets. `standard`: the value of an absent member; undefined: it cannot be absent. */
function membersOf(table: Table): Record<string, { input: z.ZodType; standard: unknown }> {
  const settable = Object.entries(table).filter(([name, { input }]) => input !== undefined && !leftOut.has(name));
  return Object.fromEntries(
    settable.map(([name, field]) => [name, { input: field.input!, standard: standardOf(field.input!, field) }]),
  );
}

function standardOf(input: z.ZodType, { initial }: Pick<Field, 'initial'> = {}): unknown {
  return initial ?? [null, false].find((value) => input.safeParse(value).success);
}

/** Schema of the members. The file may omit those with a standard value. */
function shapeOf(members: ReturnType<typeof membersOf>): Record<string, z.ZodType> {
  return Object.fromEntries(
    Object.entries(members).map(([name, { input, standard }]) => [
      name,
      standard === undefined ? input : input.default(standard),
    ]),
  );
}

const ofSubscriptions = Object.fromEntries(
  Object.entries(agentInput.subscription.shape).map(([name, input]) => [name, { input, standard: standardOf(input) }]),
);

/** The members of each kind of resource, in the order of the file. */
export const configured = {
  webhook: membersOf(webhookFields),
  agent: membersOf(agentFields),
  subscription: ofSubscriptions,
} as const;

/** Values of members, by name. */
export type Members = Record<string, unknown>;
const withMembers = <Own extends z.ZodRawShape>(own: Own, kind: keyof typeof configured) =>
  z.strictObject({ ...own, ...shapeOf(configured[kind]) }) as unknown as z.ZodType<
    z.output<z.ZodObject<Own>> & Members
  >;

const webhook = withMembers(
  {
    id: recordId.describe('id of the webhook, the last part of its URL; a UUID of version 4 for a new one'),
    secret: reference
      .optional()
      .describe('the secret of the sender. Read when the webhook has none; `weir webhook rotate` replaces it'),
    verify_token: reference.optional().describe('token of the GET handshake. Read when the webhook has none'),
  },
  'webhook',
);

const subscription = withMembers({ webhook: recordId.describe('id of the webhook') }, 'subscription');

const agent = withMembers(
  {
    id: recordId.describe('id of the agent; a UUID of version 4 for a new one'),
    subscriptions: z
      .array(subscription)
      .default([])
      .superRefine((all, context) => refuseRepeated(all, 'webhook', context))
      .describe('all webhooks whose events the agent receives'),
  },
  'agent',
);

export type ConfiguredWebhook = z.output<typeof webhook>;

/** An absent member has its default value. An absent section changes nothing. */
export const configurationSchema = z
  .strictObject({
    version: z.literal(1).describe('version of the format'),
    webhooks: z.array(webhook).max(RESOURCES_MAX).superRefine(refuseRepeatedIds).optional().describe('webhooks'),
    agents: z.array(agent).max(RESOURCES_MAX).superRefine(refuseRepeatedIds).optional().describe('agents'),
  })
  .describe('Configuration of Weir');
export type Configuration = z.output<typeof configurationSchema>;

/** The schema as JSON Schema, for editors. Draft 7 is what most of them know. */
export function configurationJsonSchema(): object {
  return z.toJSONSchema(configurationSchema, { io: 'input', target: 'draft-7', unrepresentable: 'any' });
}

function refuseRepeatedIds(all: readonly Members[], context: z.RefinementCtx): void {
  refuseRepeated(all, 'id', context);
}

function refuseRepeated(all: readonly Members[], member: string, context: z.RefinementCtx): void {
  const seen = new Set<unknown>();
  for (const [index, { [member]: id }] of all.entries()) {
    if (seen.has(id)) context.addIssue({ code: 'custom', path: [index, member], message: 'This id is there twice.' });
    seen.add(id);
  }
}
