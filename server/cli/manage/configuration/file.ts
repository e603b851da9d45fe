/** The file of `weir export` and `weir apply`: YAML, of which JSON is a part. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import { Document, isScalar, LineCounter, parseDocument } from 'yaml';
import { CommandError, type CommandIo } from '../../../base/command/io.ts';
import { withoutByteOrderMark } from '../../../base/files/text.ts';
import {
  type Configuration,
  configurationSchema,
  configured,
  type Members,
  type Reference,
} from '../../../model/configuration.ts';
import { type Current, type CurrentWebhook, usesSecret } from './plan.ts';

/** Failures of one file that are printed. */
const SHOWN_MAX = 10;

/** Reads the file, or standard input for `-`. Throws CommandError. */
export async function readConfiguration(io: CommandIo, path: string): Promise<Configuration> {
  const text = withoutByteOrderMark(String(path === '-' ? await buffer(io.stdin) : await readGiven(io, path)));
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const [wrong] = [...document.errors, ...document.warnings];
  if (wrong !== undefined) throw new CommandError(`${path}: ${wrong.message.split('\n')[0]}`, 2);
  const { data, error } = configurationSchema.safeParse(toJs(document, path));
  if (data !== undefined) return data;
  const shown = error.issues.slice(0, SHOWN_MAX).map(({ path: members, message }) => {
    const [start] = (document.getIn(members, true) as { range?: [number] } | undefined)?.range ?? [];
    const line = start === undefined ? '' : ` line ${lines.linePos(start).line}:`;
    return `${path}:${line} ${members.join('.') || 'the file'}: ${message}`;
  });
  throw new CommandError(shown.join(' '), 2);
}

/** Throws CommandError for aliases that expand to too much. */
function toJs(document: ReturnType<typeof parseDocument>, path: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new CommandError(`${path}: ${(error as Error).message}`, 2);
  }
}

async function readGiven(io: CommandIo, path: string): Promise<Buffer> {
  try {
    return await readFile(resolve(io.directory, path));
  } catch (error) {
    throw new CommandError(`${path} cannot be read: ${(error as Error).message}.`, 2);
  }
}

/**
 * The secret of a reference, without one line end at its end.
 * @param path of the configuration @param whose for messages. Throws CommandError.
 */
export async function resolveReference(io: CommandIo, path: string, of: Reference, whose: string): Promise<string> {
  if ('env' in of) {
    const value = io.environment[of.env];
    if (!value) throw new CommandError(`${whose}: the environment variable ${of.env} is not set`);
    return value;
  }
  const folder = path === '-' ? io.directory : dirname(resolve(io.directory, path));
  try {
    return withoutByteOrderMark(await readFile(resolve(folder, of.file), 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    throw new CommandError(`${whose}: ${of.file} cannot be read: ${(error as Error).message}`);
  }
}

/** The document of the present configuration, in a stable order: by name, then id. */
export function documentOf({ webhooks, agents }: Current): object {
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

/** The document as YAML, with the names of subscribed webhooks as comments. @param apiUrl of the Weir that it describes */
export function yamlOf(content: object, { webhooks }: Current, apiUrl: string): string {
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
