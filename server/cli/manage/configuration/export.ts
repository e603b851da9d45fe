/** `weir export`: webhooks and agents as a file of configuration. */
import { isDeepStrictEqual } from 'node:util';
import { Document, isScalar } from 'yaml';
import { printLine } from '../../../base/command/io.ts';
import { configured, type Members } from '../../../model/configuration.ts';
import { type Row, row } from '../row.ts';
import { type Current, type CurrentWebhook, readCurrent, unverifiedOf, usesSecret } from './plan.ts';

export const rows: readonly Row[] = [
  row<{ json?: boolean }>()({
    name: '',
    description: '',
    run: async (call, { io, connection }) => {
      const current = await readCurrent(call);
      const document = documentOf(current);
      const webhooks = [...current.webhooks.values()].map(({ id, members }) => ({ ...members, id }));
      const unverified = unverifiedOf(current, webhooks);
      if (unverified.length > 0)
        printLine(
          io,
          `weir: keep the file secret: its ids are all that protects webhooks that check no signature: ${unverified
            .map(({ name }) => name)
            .join(', ')}`,
        );
      return { document, yaml: Buffer.from(yamlOf(document, current, connection.apiUrl)) };
    },
    json: ({ document }) => document,
    text: ({ yaml }) => yaml,
  }),
];

/** The document of the present configuration, in a stable order: by name, then id. */
function documentOf({ webhooks, agents }: Current): object {
  const variables = new Map<string, number>();
  for (const { name } of webhooks.values()) variables.set(slugOf(name), (variables.get(slugOf(name)) ?? 0) + 1);
  const variableOf = ({ id, name }: CurrentWebhook) => {
    const slug = slugOf(name);
    return variables.get(slug) === 1 && slug !== '' ? slug : [slug, slugOf(id.slice(0, 8))].filter(Boolean).join('_');
  };
  return {
    version: 1,
    webhooks: inOrder(webhooks.values()).map((webhook) => ({
      id: webhook.id,
      ...withoutStandard('webhook', webhook.members),
      ...(usesSecret(webhook) && { secret: { env: `WEBHOOK_SECRET_${variableOf(webhook)}` } }),
      ...(webhook.hasVerifyToken && { verify_token: { env: `WEBHOOK_VERIFY_TOKEN_${variableOf(webhook)}` } }),
    })),
    agents: inOrder(agents.values()).map(({ id, members, subscriptions }) => ({
      id,
      ...withoutStandard('agent', members),
      ...(subscriptions.size > 0 && {
        subscriptions: [...subscriptions].map(([webhook, own]) => ({
          webhook,
          ...withoutStandard('subscription', own),
        })),
      }),
    })),
  };
}

/**
 * The document as YAML, with the names of subscribed webhooks as comments.
 * @param apiUrl of the Weir that it describes
 */
function yamlOf(content: object, { webhooks }: Current, apiUrl: string): string {
  const document = new Document(content);
  document.commentBefore = ` yaml-language-server: $schema=${apiUrl}/api/v1/configuration/schema.json\n Apply changes with: weir apply -f FILE`;
  const { agents } = content as { agents: { subscriptions?: readonly object[] }[] };
  for (const [index, { subscriptions = [] }] of agents.entries())
    for (const place of subscriptions.keys()) {
      const node = document.getIn(['agents', index, 'subscriptions', place, 'webhook'], true);
      if (isScalar(node)) node.comment = ` ${webhooks.get(String(node.value))?.name ?? ''}`;
    }
  return document.toString({ lineWidth: 0 });
}

function withoutStandard(kind: keyof typeof configured, members: Members): Members {
  const own = Object.entries(configured[kind]).map(([name, { standard }]) => [name, members[name], standard] as const);
  return Object.fromEntries(own.filter(([, value, standard]) => !isDeepStrictEqual(value, standard)));
}

/** By code units: the same in every locale. */
function inOrder<One extends { id: string; name: string }>(all: Iterable<One>): One[] {
  const key = ({ name, id }: One) => `${name}\0${id}`;
  return [...all].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

/** Part of the name of an environment variable. */
function slugOf(text: string): string {
  return text
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .replace(/^_|_$/g, '');
}
