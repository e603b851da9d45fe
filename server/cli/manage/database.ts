/**
 * Operations on the database of the settings, without a Weir that serves: users, for the first administrator and a lost password; cells,
 * since an unreachable server may prevent the start of Weir; the audit log; and webhooks, which `weir event export` finds by name.
 */
import type { CommandIo } from '../../base/command/io.ts';
import { ProblemError, problem, problemDocument } from '../../base/http/problem.ts';
import { type BodyOf, databaseOperations, type Operations } from '../../manage/api/operations.ts';
import type { OperationName } from '../../manage/api/routes.ts';
import { Runner } from '../../manage/api/runner.ts';
import { localAdministrator } from '../../manage/auth/local.ts';
import { Passwords } from '../../manage/auth/password-hash.ts';
import { commandActor } from '../../store/audit/record.ts';
import { type CommandSession, openCommandSession } from '../command/session.ts';
import { type Call, type CallArguments, type Connection, ProblemFailure, queryOf } from './call.ts';

/** Opens the database of this machine. Rejects with OperatorError. */
export async function openDatabaseConnection(io: CommandIo): Promise<Connection> {
  const session = await openCommandSession(io);
  const unused = () => {
    throw new Error('no command calls this without a Weir that serves');
  };
  return {
    remote: null,
    apiUrl: session.settings.FRONTEND_PUBLIC_API_URL,
    clientCommand: '',
    call: callDatabase(session),
    readBytes: unused,
    close: session.detach,
  };
}

/** Calls on an attached database, as the local administrator. They reject with ProblemFailure for a problem. */
export function callDatabase(session: CommandSession): Call {
  const unsent = () => {
    throw new Error('a command sends no test request');
  };
  const operations = databaseOperations({ ...session, passwords: new Passwords() }, unsent);
  // Commands send no Idempotency-Key, and the local administrator is exempt from step-up.
  const runner = new Runner(operations as Operations, null, async () => problem('reauthentication_required'));
  return async <Name extends OperationName>(name: Name, given: CallArguments = {}) => {
    const { id = '', innerId = '', query = {}, input = {} } = given;
    try {
      const outcome = await runner.run(name, {
        requester: localAdministrator(commandActor()),
        id,
        innerId,
        query: queryOf(query),
        input: async () => ({ kind: 'parsed', value: JSON.parse(JSON.stringify(input)) }),
        isForged: () => false,
        exchange: null,
      });
      if (outcome.kind === 'problem') throw new ProblemFailure(problemDocument(outcome, ''), id);
      if (outcome.kind !== 'done') throw new Error(`${name} returns no document that a command can print`);
      return outcome.body as BodyOf<Name>;
    } catch (error) {
      if (error instanceof ProblemError) throw new ProblemFailure(problemDocument(error.problem, ''), id);
      throw error;
    }
  };
}
