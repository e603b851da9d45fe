/** The way of management commands on the machine of Weir: the runner of the API, on the database of the settings. */
import type { Operations } from '../../api/operations.ts';
import { type OperationName, operationRoutes } from '../../api/routes.ts';
import { type Requester, Runner } from '../../api/run.ts';
import { commandActor } from '../../audit/actor.ts';
import { Changes } from '../../db/announce.ts';
import type { Exchange } from '../../http/exchange.ts';
import { ProblemError, problemDocument } from '../../http/problem.ts';
import { clientCommand } from '../client-command.ts';
import type { CommandIo } from '../io.ts';
import { type CommandSession, openSession } from '../session.ts';
import { type BodyOf, type CallArguments, type Connection, ProblemFailure, queryOf } from './call.ts';
import { operationsOf } from './local-operations.ts';

/** Opens the database of this machine. Rejects with OperatorError. */
export async function openLocal(io: CommandIo): Promise<Connection> {
  const session = await openSession(io);
  const parts = { ...session, changes: new Changes(session.conninfo), workers: io.workers };
  const requester = localRequester();
  return {
    remote: null,
    apiUrl: session.settings.FRONTEND_PUBLIC_API_URL,
    clientCommand: clientCommand(io, session.settings),
    close: session.detach,
    call: (name, given) => run(parts, requester, name, given),
  };
}

/**
 * An administrator without a user: a person with a shell on this machine. It is constructed here only, so no HTTP request can be it. The
 * audit log records its changes as those of a command.
 */
function localRequester(): Requester {
  const actor = commandActor();
  const via = { kind: 'local', actor } as const;
  return { kind: 'user', person: { id: '', email: '', name: actor.name, role: 'administrator', via } };
}

type LocalParts = CommandSession & { changes: Changes; workers: string | undefined };

async function run<Name extends OperationName>(
  parts: LocalParts,
  requester: Requester,
  name: Name,
  { id = '', innerId = '', query = {}, input = {}, ifMatch }: CallArguments = {},
): Promise<BodyOf<Name>> {
  const [, path] = operationRoutes.find((route) => route[2] === name)!;
  const { operations, close } = await operationsOf(path.split('/')[3]!, parts);
  // Commands send no Idempotency-Key, and the local requester is exempt from step-up.
  const runner = new Runner(operations as Operations, null, async () => ({ kind: 'confirmed' }));
  try {
    const outcome = await runner.run(name, {
      requester,
      id,
      innerId,
      query: queryOf(query),
      input: async () => ({ kind: 'parsed', value: JSON.parse(JSON.stringify(input)) }),
      ifMatch,
      isForged: () => false,
      exchange: noExchange,
    });
    if (outcome.kind === 'problem') throw new ProblemFailure(problemDocument(outcome, ''), id);
    if (outcome.kind !== 'done') throw new Error(`${name} returns no document that a command can print`);
    return outcome.body as BodyOf<Name>;
  } catch (error) {
    if (error instanceof ProblemError) throw new ProblemFailure(problemDocument(error.problem, ''), id);
    throw error;
  } finally {
    await close?.();
  }
}

/** What operations read of a request, for a command. Operations that answer by themselves are not called by commands. */
const noExchange = {
  method: 'COMMAND',
  path: '',
  requestId: '',
  aborted: false,
  setHeader: () => {},
  whenGone: () => {},
} satisfies Partial<Exchange> as unknown as Exchange;
