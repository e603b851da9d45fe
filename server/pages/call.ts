/** Calls API operations from a page, with the same input and output schemas and the same role checks as over HTTP. */
import { z } from 'zod';
import type { Operation, Reply } from '../api/operation.ts';
import { etagOf } from '../api/precondition.ts';
import { type OperationName, type Operations, operationRoutes } from '../api/routes.ts';
import { type Person, personActor, visitorActor } from '../auth/person.ts';
import { type ProblemCode, problems } from '../errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { check, type Refusal } from '../http/issues.ts';
import { recordOf } from '../http/record.ts';
import { allows } from '../resources/users.ts';
import type { Call, CallArguments, Called } from './page.ts';

const accessOf = new Map<string, string>(operationRoutes.map(([, , name, access]) => [name, access]));

/** Creates the call function for this user and request. @param person null when not signed in. */
export function createCall(operations: Operations, person: Person | null, exchange: Exchange): Call {
  return async (name: OperationName, given: CallArguments = {}): Promise<Called> => {
    // biome-ignore lint/suspicious/noExplicitAny: each operation has types of its own, checked by its schemas
    const operation = operations[name] as Operation<any, any, any>;
    const access = accessOf.get(name)!;
    const refusal = refuse(person, access);
    if (refusal !== null) return refusal;
    if (operation.sessionOnly && person?.via.kind !== 'session') return problemOf('session_required');
    const id = given.id?.toLowerCase() ?? '';
    if (operation.id !== undefined && !operation.id.schema.safeParse(id).success)
      return problemOf(operation.id.problem);
    const query = check(operation.query ?? z.unknown(), withoutEmpty(given.query ?? {}));
    if ('issues' in query) return { kind: 'invalid', errors: byField(query) };
    const input = check(operation.input ?? z.unknown(), given.input ?? {});
    if ('issues' in input) return { kind: 'invalid', errors: byField(input) };
    const who = access === 'viewer or agent' ? { kind: 'user', person } : access === 'anyone' ? null : person;
    const reply = await operation.handle({
      who,
      id,
      query: query.data,
      input: input.data,
      actor: person === null ? visitorActor(exchange) : personActor(person, exchange),
      matches: (representation) => isStill(given.ifMatch, operation.representation, representation),
      exchange,
    });
    return called(operation, reply);
  };
}

function refuse(person: Person | null, access: string): Called | null {
  if (access === 'anyone') return null;
  if (person === null) return problemOf('unauthenticated');
  const needed = access === 'viewer or agent' ? 'viewer' : (access as Person['role']);
  if (allows(person.role, needed)) return null;
  return problemOf('forbidden', `This needs the role ${needed}; yours is ${person.role}.`);
}

// biome-ignore lint/suspicious/noExplicitAny: as above
function called(operation: Operation<any, any, any>, reply: Reply): Called {
  if (reply.kind === 'problem') return refused(reply);
  const schema = operation.answers[reply.status];
  const body = schema ? schema.parse(reply.body) : null;
  return { kind: 'done', status: reply.status, body, tag: etagOf(JSON.stringify(body)), headers: reply.headers ?? {} };
}

/** Whether the resource is unchanged since the form was rendered. */
function isStill(tag: string | undefined, schema: z.ZodType | undefined, representation: unknown): boolean {
  return tag === undefined || !schema || etagOf(JSON.stringify(schema.parse(representation))) === tag;
}

/** Converts a problem of the handler. Errors of single fields are shown beside the field, like schema errors. */
function refused({ code, detail, members, retryAfterSeconds }: Extract<Reply, { kind: 'problem' }>): Called {
  const pointed = code === 'invalid_request' ? (members?.errors as { pointer: string; detail: string }[]) : undefined;
  if (pointed === undefined)
    return { ...problemOf(code, detail, members), retryAfterSeconds: retryAfterSeconds ?? null };
  const errors = recordOf<string>();
  for (const { pointer, detail } of pointed) errors[pointer.split('/')[1] ?? ''] ??= detail;
  return { kind: 'invalid', errors };
}

export function problemOf(
  code: ProblemCode,
  detail?: string,
  members: Record<string, unknown> = {},
): Extract<Called, { kind: 'problem' }> {
  const { status, title, detail: usual } = problems[code];
  return { kind: 'problem', status, code, title, detail: detail ?? usual, members, retryAfterSeconds: null };
}

/** The first error for each field. */
function byField({ issues, omitted }: Refusal): Record<string, string> {
  const errors = recordOf<string>();
  for (const { path, detail } of issues) errors[String(path[0] ?? '')] ??= detail;
  if (omitted > 0) errors[''] ??= `${omitted} more problems are not shown.`;
  return errors;
}

/** Removes empty values: a form sends an empty field as ''. */
function withoutEmpty(query: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== ''),
  );
}
