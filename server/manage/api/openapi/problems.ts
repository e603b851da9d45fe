/** The problems of a route, and their responses in the document. */

import { jsonBodyProblems } from '../../../base/http/parsed-body.ts';
import type { Method } from '../../../base/http/route.ts';
import { type ProblemCode, problems } from '../../../model/errors.ts';
import { stepUpProblems } from '../../auth/step-up.ts';
import type { Operation } from '../operation.ts';
import type { OperationAccess } from '../routes.ts';
import type { Json } from './schemas.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** Problems of every route. */
const common: readonly ProblemCode[] = [
  'length_required',
  'length_invalid',
  'headers_too_large',
  'client_busy',
  'internal',
  'database_unavailable',
];
/** Problems caused by the OpenID Connect provider, and those of its users. */
const hostedProblems: readonly ProblemCode[] = [
  'role_missing',
  'user_disabled',
  'token_suspended',
  'email_of_another_user',
  'identity_provider_unavailable',
];
const agentProblems: readonly ProblemCode[] = ['agent_unauthenticated', 'rate_limited'];
const idempotencyProblems: readonly ProblemCode[] = [
  'idempotency_key_invalid',
  'idempotency_in_progress',
  'idempotency_response_lost',
  'idempotency_key_reused',
];

/** Returns the problems of an operation's access and inputs, and its own. */
export function problemsOf(
  method: Method,
  access: OperationAccess,
  { id, innerId, query, input, representation, sessionOnly, stepUp, idempotent, problems: own = [] }: Operation,
): ProblemCode[] {
  return [
    ...accessProblems(access),
    ...(method === 'GET' || isForAgents(access) ? [] : (['csrf_refused'] as const)),
    ...(id === undefined ? [] : [id.problem]),
    ...(innerId === undefined ? [] : [innerId.problem]),
    ...(query === undefined ? [] : (['invalid_request'] as const)),
    ...(input === undefined ? [] : jsonBodyProblems),
    ...(representation === undefined ? [] : (['precondition_failed'] as const)),
    ...(sessionOnly ? (['session_required'] as const) : []),
    ...(stepUp ? stepUpProblems : []),
    ...(idempotent ? idempotencyProblems : []),
    ...own,
  ];
}

function isForAgents(access: OperationAccess): boolean {
  return access === 'agent' || access === 'agent credential';
}

function accessProblems(access: OperationAccess): readonly ProblemCode[] {
  if (access === 'anyone') return ['rate_limited'];
  if (isForAgents(access)) return agentProblems;
  if (access === 'viewer or agent') return [...hostedProblems, ...agentProblems];
  return [
    ...hostedProblems,
    'unauthenticated',
    'rate_limited',
    ...(access === 'viewer' ? [] : (['forbidden'] as const)),
  ];
}

/** One response per status; `code` gives the reason. */
export function problemResponses(codes: readonly ProblemCode[]): Record<string, Json> {
  const all = [...new Set([...codes, ...common])].toSorted();
  const statuses = [...new Set(all.map((code) => problems[code].status))];
  const reasonsOf = (status: number) => all.filter((code) => problems[code].status === status);
  return Object.fromEntries(statuses.map((status) => [String(status), response(status, reasonsOf(status))]));
}

function response(status: number, codes: readonly ProblemCode[]): Json {
  const waits = status === 429 || status === 503;
  return {
    description: codes.map((code) => `\`${code}\`: ${problems[code].detail}`).join('\n\n'),
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
      ...(waits ? { 'Retry-After': { $ref: '#/components/headers/Retry-After' } } : {}),
    },
    content: {
      [PROBLEM_TYPE]: {
        schema: {
          allOf: [{ $ref: '#/components/schemas/Problem' }, { type: 'object', properties: { code: { enum: codes } } }],
        },
      },
    },
  };
}

/** RFC 9457, with Weir's additional members. */
export const problemSchema: Json = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail', 'code', 'request_id'],
  properties: {
    type: { type: 'string', description: 'URI of the kind of problem' },
    title: { type: 'string', description: 'short name of the problem' },
    status: { type: 'integer', description: 'the HTTP status' },
    detail: { type: 'string', description: 'what is wrong and how to fix it' },
    code: { type: 'string', description: 'code of the problem; /docs/reference#errors lists all codes' },
    request_id: { type: 'string', description: 'id of the request in the log' },
    errors: {
      type: 'array',
      description: 'of invalid_request: the first 20 invalid fields (by JSON pointer) or parameters (by name)',
      items: {
        type: 'object',
        required: ['detail'],
        properties: {
          pointer: { type: 'string', description: 'JSON pointer of the field' },
          parameter: { type: 'string', description: 'name of the parameter' },
          line: { type: 'integer', description: 'line of a batch, starting at 1' },
          detail: { type: 'string', description: 'what is wrong and what is allowed' },
        },
      },
    },
    errors_omitted: {
      type: 'integer',
      description: 'of invalid_request: number of invalid fields or parameters that errors does not list',
    },
  },
};
