/** Calls of API operations by management commands: on the Weir of this machine, over its socket, or on a remote one. */
import { createInterface } from 'node:readline';
import { CommandError, type CommandIo, printMessage } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import type { BodyOf } from '../../manage/api/operations.ts';
import type { OperationName } from '../../manage/api/routes.ts';
import { agentFields } from '../../model/agents.ts';
import { confirmationOf } from '../../model/confirmations.ts';
import type { Table } from '../../model/table.ts';
import { webhookFields } from '../../model/webhooks.ts';

export interface CallArguments {
  id?: string | undefined;
  innerId?: string | undefined;
  /** Undefined values are not sent. */
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  input?: object;
}

/** Query parameters as text, without those that are absent. */
export function queryOf(query: NonNullable<CallArguments['query']>): Record<string, string> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

/** Rejects with ProblemFailure for a problem document. */
export type Call = <Name extends OperationName>(name: Name, given?: CallArguments) => Promise<BodyOf<Name>>;

export interface Connection {
  call: Call;
  /** The stored bytes of a resource. Rejects with ProblemFailure. */
  readBytes: (name: 'showEventBody' | 'showRejectionBody', id: string) => Promise<Uint8Array>;
  /** Base URL of a remote Weir; null: the Weir of this machine. */
  remote: string | null;
  /** Base URL of the API, for output that names one. */
  apiUrl: string;
  /** How a person runs a client command on any machine. */
  clientCommand: string;
  close: () => Promise<void>;
}

/** Whether a command on this machine opens the database itself: always, because it must not depend on Weir, or only when no Weir serves. */
export type UsesDatabase = 'always' | 'unless_served';

export type OpenConnection = (io: CommandIo, database?: UsesDatabase) => Promise<Connection>;

/** A problem document (RFC 9457). */
export interface ProblemDocument {
  type?: string;
  title?: string;
  status?: number;
  code?: string;
  detail?: string;
  errors?: { pointer?: string; parameter?: string; detail: string }[];
  errors_omitted?: number;
}

/** The operation was refused. `--json` prints the document. */
export class ProblemFailure extends CommandError {
  readonly document: ProblemDocument;

  /** @param id of the call, for messages that name it */
  constructor(document: ProblemDocument, id?: string) {
    super(visibleLine(sentenceOf(document, id)), usageCodes.has(document.code ?? '') ? 2 : 1);
    this.document = document;
  }
}

/** Problems that count as wrong usage (exit code 2). */
const usageCodes: ReadonlySet<string> = new Set([
  'invalid_request',
  'answer_invalid',
  'order_by_invalid',
  'local_mode_only',
]);

/** Command that fixes the cause of a problem, or lists what is in its way. */
const fixes: Readonly<Record<string, string>> = {
  signature_scheme: 'scheme list',
  job_finished: 'job list',
  jobs_full: 'job list',
  tokens_too_many: 'token list',
  no_recipients: 'agent subscribe',
  webhook_disabled: 'webhook enable',
  rejection_unverified: 'rejection recheck',
  verification_unavailable: 'doctor',
  name_taken: 'agent list',
  email_taken: 'user list',
};

/** Command that helps with a problem or a field: that of `fixes`, or `agent list` for names such as `agent_unknown` and `agent_ids`. */
function helpOf(name: string): string | undefined {
  const [, listed] = /^(webhook|agent|delivery|event|rejection|user|token|job)_(?:unknown|ids)$/.exec(name) ?? [];
  const command = listed === undefined ? fixes[name] : `${listed} list`;
  return command && `weir ${command}`;
}

/** Options of the query parameters and members whose option has another name. */
const options: Readonly<Record<string, string>> = {
  q: '--search',
  ...Object.fromEntries(
    Object.entries({ ...agentFields, ...webhookFields } as Table).flatMap(([name, { command }]) =>
      command === undefined ? [] : [[name, command.flags.split(' ')[0]!]],
    ),
  ),
};

function sentenceOf({ code = '', detail = '', errors, errors_omitted: omitted = 0 }: ProblemDocument, id?: string) {
  if (errors !== undefined) {
    const sentences = errors.map(({ pointer, parameter, detail }) => {
      if (parameter !== undefined) return `${optionOf(parameter)}: ${detail}`;
      const path = pointer?.split('/').slice(1) ?? [];
      const list = helpOf(path[0] ?? '');
      const see = list === undefined ? '' : ` See: ${list}`;
      if (path[0]?.endsWith('_ids')) return `${detail}${see}`;
      return `${path.length === 1 ? optionOf(path[0]!) : path.join('.')}: ${detail}${see}`;
    });
    return [...sentences, ...(omitted > 0 ? [`And ${omitted} more.`] : [])].join(' ');
  }
  // `that you may see` is for agents, which see their own only.
  const named = (id ? detail.replace(/has this id\b/, `has the id ${id}`) : detail).replace(' that you may see', '');
  const list = helpOf(code);
  return list === undefined ? named : `${lowerFirst(named).replace(/\.$/, '')}; see: ${list}`;
}

function optionOf(parameter: string): string {
  return options[parameter] ?? `--${parameter.replace(/_id$/, '').replaceAll('_', '-')}`;
}

function lowerFirst(text: string): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1)}`;
}

/** Builds the failure for an unknown name or id. @param what such as `no webhook has the name x` */
export function notFound(code: string, what: string): ProblemFailure {
  const detail = `${what.charAt(0).toUpperCase()}${what.slice(1)}.`;
  return new ProblemFailure({ ...aboutBlank, title: 'Not Found', status: 404, detail, code });
}

/** Formats any other failure as a problem document, for `--json`. */
export function documentOf({ message, exitCode }: CommandError): object {
  return { ...aboutBlank, title: exitCode === 2 ? 'Wrong usage' : 'Command failed', detail: message };
}

const aboutBlank = { type: 'about:blank' } as const;

/**
 * The calls of a command, which ask once on a terminal before an operation that stops traffic or cannot be undone
 * (model/confirmations.ts). Without a terminal nothing is asked: a script has no person to answer.
 * @param about the target as the person named it; '' without one
 * @param yes the option --yes
 */
export function confirmedCall(io: CommandIo, call: Call, about: string, yes: boolean): Call {
  let isConfirmed = yes || io.stdin.isTTY !== true || io.stdout.isTTY !== true;
  return async (operation, given) => {
    const asked = isConfirmed ? null : confirmationOf(operation, given?.input);
    if (asked !== null) {
      const question = `${about === '' ? '' : `${about}: `}${asked.consequence} Continue? [y/N] `;
      if (!(await isAnsweredYes(io, visibleLine(question))))
        throw new CommandError('nothing was changed; answer y, or give --yes');
      isConfirmed = true;
    }
    return call(operation, given);
  };
}

/** Asks on standard error. An input that ends without an answer is a no. */
export async function isAnsweredYes(io: CommandIo, question: string): Promise<boolean> {
  printMessage(io, question);
  const lines = createInterface({ input: io.stdin });
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim());
    return false;
  } finally {
    lines.close();
  }
}
