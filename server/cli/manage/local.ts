/** The way of management commands on the machine of Weir: the runner of the API, on the database of the settings. */

import type { CommandIo } from '../../base/command/io.ts';
import { ProblemError, problem, problemDocument } from '../../base/http/problem.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { type OperationName, operationRoutes } from '../../manage/api/routes.ts';
import { type OutcomeOf, type Requester, Runner } from '../../manage/api/run.ts';
import { commandActor } from '../../store/audit/actor.ts';
import { clientCommand } from '../command/client-command.ts';
import { type CommandSession, openSession } from '../command/session.ts';
import {
  type BodyOf,
  type Call,
  type CallArguments,
  type Connection,
  ifMatchOf,
  ProblemFailure,
  queryOf,
} from './call.ts';
import { type LocalParts, operationsOf } from './local-operations.ts';

/** Opens the database of this machine. Rejects with OperatorError. */
export async function openLocal(io: CommandIo): Promise<Connection> {
  const session = await openSession(io);
  const parts = { ...session, workers: io.workers };
  return {
    remote: null,
    apiUrl: session.settings.FRONTEND_PUBLIC_API_URL,
    get clientCommand() {
      return clientCommand(io, session.settings);
    },
    close: session.detach,
    call: callOn(parts),
    readBytes: async (name, id) => {
      const outcome = await run(parts, name, { id });
      if (outcome.kind !== 'encoded') throw new Error(`${name} returns no bytes`);
      return Buffer.from(outcome.content);
    },
  };
}

/** Calls on an attached database. */
export function callLocally(session: CommandSession): Call {
  return callOn({ ...session, workers: undefined });
}

function callOn(parts: LocalParts): Call {
  return async <Name extends OperationName>(name: Name, given: CallArguments = {}) => {
    const outcome = await run(parts, name, given);
    if (outcome.kind !== 'done') throw new Error(`${name} returns no document that a command can print`);
    return outcome.body as BodyOf<Name>;
  };
}

/**
 * An administrator without a user: a person with a shell on this machine. It is constructed here only, so no HTTP request can be it. The
 * audit log records its changes as those of a command.
 * @param owner the user to whom what the command creates belongs
 */
function localRequester(owner: CallArguments['owner']): Requester {
  const actor = commandActor();
  const noUser = { id: '', email: '', name: actor.name, role: 'administrator' } as const;
  return { kind: 'user', person: { ...(owner ?? noUser), via: { kind: 'local', actor } } };
}

/** Rejects with ProblemFailure for a problem. */
async function run<Name extends OperationName>(
  parts: LocalParts,
  name: Name,
  { id = '', innerId = '', query = {}, input = {}, representation, owner }: CallArguments,
): Promise<Exclude<OutcomeOf<Name>, { kind: 'problem' }>> {
  const [, path] = operationRoutes.find((route) => route[2] === name)!;
  const { operations, close } = await operationsOf(path.split('/')[3]!, parts);
  // Commands send no Idempotency-Key, and the local requester is exempt from step-up.
  const runner = new Runner(operations as Operations, null, async () => problem('reauthentication_required'));
  try {
    const outcome = await runner.run(name, {
      requester: localRequester(owner),
      id,
      innerId,
      query: queryOf(query),
      input: async () => ({ kind: 'parsed', value: JSON.parse(JSON.stringify(input)) }),
      ifMatch: ifMatchOf(representation),
      isForged: () => false,
      exchange: null,
    });
    if (outcome.kind === 'problem') throw new ProblemFailure(problemDocument(outcome, ''), id);
    return outcome as Exclude<OutcomeOf<Name>, { kind: 'problem' }>;
  } catch (error) {
    if (error instanceof ProblemError) throw new ProblemFailure(problemDocument(error.problem, ''), id);
    throw error;
  } finally {
    await close?.();
  }
}
