/** A problem as a value, and its only mapping to what a client sees: the problem document (RFC 9457). */
import { STATUS_CODES } from 'node:http';
import { type ProblemCode, problems } from '../../model/errors.ts';

export interface Problem {
  kind: 'problem';
  code: ProblemCode;
  /** Replaces the detail of the table. */
  detail?: string | undefined;
  /** Extension members of the document (RFC 9457, section 3.2). */
  members?: Record<string, unknown> | undefined;
  /** When a retry may succeed; for 429 and 503. */
  retryAfterSeconds?: number | undefined;
  /** WWW-Authenticate of a 401; absent: `Bearer`. */
  challenge?: string | undefined;
}

/** The outcome of work that can be refused: a value or a problem. Services, the runner, pages, MCP and commands share this type. */
export type Result<T> = { kind: 'done'; value: T } | Problem;

/** Applies `of` to the value of a result. A problem is returned unchanged. */
export function mapped<T, V>(result: Result<T>, of: (value: T) => V): Result<V> {
  return result.kind === 'problem' ? result : { kind: 'done', value: of(result.value) };
}

/** Creates a problem. @param detail default: that of the code in model/errors.ts @param members further members of the document */
export function problem(code: ProblemCode, detail?: string, members?: Record<string, unknown>): Problem {
  return { kind: 'problem', code, detail, members };
}

/** Creates a problem of status 429 or 503, which passes: the answer has Retry-After. */
export function problemLater(code: ProblemCode, retryAfterSeconds: number): Problem {
  return { kind: 'problem', code, retryAfterSeconds };
}

/**
 * Creates the problem of one invalid field that its schema alone cannot validate.
 * @param pointer RFC 6901, e.g. `/password`
 */
export function invalid(pointer: string, detail: string): Problem {
  return problem('invalid_request', undefined, { errors: [{ pointer, detail }] });
}

/**
 * A problem that is thrown, because it crosses callbacks of other libraries or must roll back a transaction: authentication of users and the
 * identity provider. Everything else returns its problem.
 */
export class ProblemError extends Error {
  readonly problem: Problem;

  /** @param cause for operators; not part of the answer */
  constructor(problem: Problem, cause?: unknown) {
    super(problem.code, { cause });
    this.problem = problem;
  }
}

/** Names of statuses in RFC 9110. For these, Node.js has the names of older RFCs. */
const renamed: Readonly<Record<number, string>> = { 413: 'Content Too Large', 422: 'Unprocessable Content' };

/** Title of a problem: the name of its status in RFC 9110. */
export function titleOf(status: number): string {
  return renamed[status] ?? STATUS_CODES[status]!;
}

interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  request_id: string;
}

/** Creates the problem document that a client gets (RFC 9457). */
export function problemDocument({ code, detail, members }: Problem, requestId: string): ProblemDocument {
  const { status, detail: usual } = problems[code];
  return {
    type: 'about:blank',
    title: titleOf(status),
    status,
    detail: detail ?? usual,
    code,
    request_id: requestId,
    ...members,
  };
}
