/** `weir apply`: shows changes of the configuration, asks about deletions, and makes the changes: each in one transaction, by an operation. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { LineCounter, parseDocument } from 'yaml';
import { CommandError, type CommandIo, printJson, printLine, printText, readGiven } from '../../../base/command/io.ts';
import { withoutByteOrderMark } from '../../../base/files/text.ts';
import { visibleLine } from '../../../base/telemetry/visible.ts';
import {
  type Configuration,
  configurationSchema,
  type Reference,
  type SecretMember,
} from '../../../model/configuration.ts';
import { counted } from '../../../model/words.ts';
import { type Call, isAnsweredYes } from '../call.ts';
import { type Row, row } from '../row.ts';
import { type ConfigurationChange, planChanges, readCurrent, unverifiedOf } from './plan.ts';

interface ApplyOptions {
  file: string;
  dryRun?: boolean;
  prune?: boolean;
  unverified?: boolean;
  yes?: boolean;
  json?: boolean;
}

/** A change that was made, with the credential of an agent that it created. */
type Made = ConfigurationChange & { credential?: string };

interface Applied {
  applied: boolean;
  changes: Made[];
}

type Secrets = Readonly<Partial<Record<SecretMember, string>>>;

export const rows: readonly Row[] = [
  row<ApplyOptions>()({
    name: '',
    description: '',
    asks: 'deleteWebhook',
    options: [
      ['--dry-run', 'show the changes, and make none'],
      ['--prune', 'delete webhooks and revoke agents that the file does not have; asks first'],
      ['--unverified', 'also make changes after which a webhook no longer checks signatures'],
    ],
    required: [['-f, --file <file>', 'the configuration, YAML or JSON; - is standard input']],
    // The call of the row would ask about each deletion; this command asks about all together.
    run: (_call, { io, connection, options }): Promise<Applied> => applyFile(io, connection.call, options),
    json: ({ applied, changes }) => ({
      applied,
      changes: changes.map(({ before: _before, ...change }) => change),
    }),
    // Printed below the changes.
    text: ({ applied, changes }) => {
      if (changes.length === 0) return 'Weir has the configuration of the file: nothing to do.\n';
      const count = counted(changes.length, 'change');
      return applied ? `${credentialsOf(changes)}${count} made.\n` : `${count}; nothing was changed.\n`;
    },
  }),
];

/** Rejects with CommandError, also when a person answers no. */
export async function applyFile(io: CommandIo, call: Call, options: ApplyOptions): Promise<Applied> {
  const configuration = await readConfiguration(io, options.file);
  const current = await readCurrent(call);
  const changes = planChanges(current, configuration, options.prune === true);
  for (const change of changes) if (change.action === 'delete') await countUndelivered(call, change);
  for (const { id, name } of unverifiedOf(current, configuration.webhooks ?? []))
    printLine(io, `weir: webhook ${name} (${id}) checks no signature: its id is all that protects it`);
  const isShown = options.json !== true;
  if (isShown) for (const change of changes) printText(io, diffOf(change));
  if (options.dryRun || changes.length === 0) return { applied: false, changes };
  // Before the first change: a variable that is not set changes nothing.
  const secrets = new Map<ConfigurationChange, Secrets>();
  for (const change of changes) secrets.set(change, await secretsOf(io, options.file, change));
  await confirmDeletions(io, changes, options.yes === true);
  const made: Made[] = [];
  for (const change of changes) {
    try {
      made.push({ ...change, ...(await make(call, change, secrets.get(change)!, options.unverified === true)) });
    } catch (error) {
      if (isShown)
        printLine(io, `weir: ${titleOf(change)}: refused; ${made.length} of ${changes.length} changes were made`);
      if (isShown) printText(io, credentialsOf(made));
      else printJson(io, { applied: false, changes: made });
      throw error;
    }
  }
  return { applied: true, changes: made };
}

function credentialsOf(changes: readonly Made[]): string {
  return changes
    .filter(({ credential }) => credential !== undefined)
    .map(({ name, credential }) => `Credential of agent ${visibleLine(name)}  ${credential}   (shown once)\n`)
    .join('');
}

async function countUndelivered(call: Call, change: ConfigurationChange): Promise<void> {
  const { kind, id } = change;
  if (kind === 'subscription') return;
  const query = kind === 'agent' ? { agent_id: id } : { webhook_id: id };
  const { pending, leased } = await call('countDeliveries', { query });
  change.undelivered = pending + leased;
}

const signs = { create: '+', update: '~', delete: '-' } as const;

function titleOf({ kind, id, name, webhook_id, webhook_name }: ConfigurationChange): string {
  return kind === 'subscription'
    ? `subscription of agent ${name} to webhook ${webhook_name} (${webhook_id})`
    : `${kind} ${name} (${id})`;
}

function diffOf(change: ConfigurationChange): string {
  const { action, members, before, references, undelivered } = change;
  const value = (given: unknown) => visibleLine(JSON.stringify(given) ?? 'unset');
  const lines = Object.entries(members)
    .filter(([name]) => name !== 'name' || action === 'update')
    .filter(([, value]) => action === 'update' || (value !== null && value !== ''))
    .map(([name, after]) =>
      action === 'update' ? `${name}: ${value(before[name])} -> ${value(after)}` : `${name}: ${value(after)}`,
    );
  for (const [member, of] of Object.entries(references))
    lines.push(`${member}: from ${'env' in of ? `the environment variable ${of.env}` : `the file ${of.file}`}`);
  const lost = undelivered === undefined ? '' : `: ${counted(undelivered, 'undelivered event')}`;
  return [`${signs[action]} ${visibleLine(titleOf(change))}${lost}`, ...lines.map((line) => `    ${line}`), ''].join(
    '\n',
  );
}

async function secretsOf(io: CommandIo, path: string, change: ConfigurationChange): Promise<Secrets> {
  const given: Partial<Record<SecretMember, string>> = {};
  for (const [member, of] of Object.entries(change.references))
    given[member as SecretMember] = await resolveReference(io, path, of, `${titleOf(change)}: ${member}`);
  return given;
}

/** Deletions need an answer on a terminal, and --yes elsewhere: a script has no person to answer. */
async function confirmDeletions(io: CommandIo, changes: readonly ConfigurationChange[], yes: boolean): Promise<void> {
  const deleted = changes.filter(({ action, kind }) => action === 'delete' && kind !== 'subscription');
  if (deleted.length === 0 || yes) return;
  const webhooks = deleted.filter(({ kind }) => kind === 'webhook');
  const agents = deleted.filter(({ kind }) => kind === 'agent');
  const countOf = (all: readonly ConfigurationChange[]) =>
    all.reduce((total, { undelivered = 0 }) => total + undelivered, 0);
  const undelivered = Math.max(countOf(webhooks), countOf(agents));
  const what = [
    webhooks.length > 0 && `Requests to the URLs of ${counted(webhooks.length, 'webhook')} then get a 404 response.`,
    agents.length > 0 && `The credentials of ${counted(agents.length, 'agent')} are refused from now on.`,
    undelivered > 0 && `${counted(undelivered, 'undelivered event')} among what goes.`,
  ].filter(Boolean);
  const question = `${what.join(' ')} Continue? [y/N] `;
  const isAsked = io.stdin.isTTY === true && io.stdout.isTTY === true;
  if (!isAsked || !(await isAnsweredYes(io, question)))
    throw new CommandError('nothing was changed; --prune deletes what is marked with -: answer y, or give --yes');
}

const operations = {
  webhook: { create: 'createWebhook', update: 'updateWebhook', delete: 'deleteWebhook' },
  agent: { create: 'createAgent', update: 'updateAgent', delete: 'revokeAgent' },
  subscription: { create: 'setSubscription', update: 'setSubscription', delete: 'endSubscription' },
} as const;

/** Makes one change. A secret is rotated before the members that need it; where a scheme with a public key ends, it is set with them. */
async function make(
  call: Call,
  { action, kind, id, webhook_id: innerId, members, before }: ConfigurationChange,
  { secret, ...others }: Secrets,
  unverified: boolean,
): Promise<{ credential?: string }> {
  const isNew = action === 'create';
  const isRotated = !isNew && secret !== undefined && before.public_key === null;
  if (isRotated) await call('rotateSecret', { id, input: { secret } });
  const changed = { ...members, ...others, ...(secret !== undefined && !isRotated && { secret }) };
  if (action === 'update' && Object.keys(changed).length === 0) return {};
  const input = {
    ...(isNew && kind !== 'subscription' && { id }),
    ...changed,
    ...(kind === 'webhook' && !isNew && unverified && { unverified }),
  };
  const answer = await call(operations[kind][action], { id, innerId, ...(action !== 'delete' && { input }) });
  return answer !== null && 'credential' in answer ? { credential: answer.credential } : {};
}

/** At most this number of failures of one file is printed. */
const SHOWN_MAX = 10;

/** Reads the file, or standard input for `-`. Throws CommandError. */
async function readConfiguration(io: CommandIo, path: string): Promise<Configuration> {
  const text = withoutByteOrderMark(path === '-' ? String(await buffer(io.stdin)) : await readGiven(io, path));
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const [wrong] = [...document.errors, ...document.warnings];
  if (wrong !== undefined) throw new CommandError(`${path}: ${wrong.message.split('\n')[0]}`, 2);
  let content: unknown;
  try {
    content = document.toJS();
  } catch (error) {
    // Aliases that expand to too much.
    throw new CommandError(`${path}: ${(error as Error).message}`, 2);
  }
  const { data, error } = configurationSchema.safeParse(content);
  if (data !== undefined) return data;
  const shown = error.issues.slice(0, SHOWN_MAX).map(({ path: members, message }) => {
    const [start] = (document.getIn(members, true) as { range?: [number] } | undefined)?.range ?? [];
    const line = start === undefined ? '' : ` line ${lines.linePos(start).line}:`;
    return `${path}:${line} ${members.join('.') || 'the file'}: ${message}`;
  });
  throw new CommandError(shown.join(' '), 2);
}

/**
 * Reads the secret that a reference names; a line end at its end is removed. Throws CommandError.
 * @param path of the configuration
 * @param whose for messages
 */
async function resolveReference(io: CommandIo, path: string, of: Reference, whose: string): Promise<string> {
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
