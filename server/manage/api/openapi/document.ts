/** The OpenAPI 3.1 document, generated from the route table and the schemas that validate. */
import type { z } from 'zod';
import { release } from '../../../base/files/build.ts';
import type { Method } from '../../../base/http/route.ts';
import { type ProblemCode, problems } from '../../../model/errors.ts';
import { ingestDescriptions } from '../../../receive/ingest/descriptions.ts';
import { CSRF_HEADER } from '../../auth/csrf.ts';
import type { Answers, Operation } from '../operation.ts';
import type { Operations } from '../operations.ts';
import { agentRoutes, type OperationAccess, operationRoutes, plainRoutes } from '../routes.ts';
import { healthDescriptions } from '../status/health.ts';
import { heading, tagList } from './headings.ts';
import { headers, problemSchema, problemsOf, responsesOf, shareRefusals } from './responses.ts';
import { type Json, Schemas } from './schemas.ts';

interface PlainDescription {
  /** Request body by media type; null: any bytes. */
  input?: Readonly<Record<string, z.ZodType | null>>;
  /** Null: a response that is not JSON. */
  answers: Answers;
  problems: readonly ProblemCode[];
}

/**
 * Descriptions of the plain routes, which are not operations; their schemas are next to their handlers. Null: the route is for browsers or
 * has a protocol of its own, and is not in the document.
 */
export const plainDescriptions: Record<(typeof plainRoutes)[number][2], PlainDescription | null> = {
  ...healthDescriptions,
  ...ingestDescriptions,
  asset: null,
  clientPackage: null,
  currentClient: null,
  pythonClient: null,
  mcp: null,
};

/** Statuses that senders and agents can get, by route. Their metrics series exist from the start. */
export function expectedAnswers(operations: Operations): { path: string; statuses: number[] }[] {
  const plain = plainRoutes.flatMap(([, path, name]) => ({ path, ...(plainDescriptions[name] ?? nothing) }));
  const ofAgents = agentRoutes.map(([method, path, name, access]) => {
    const { answers } = operations[name];
    return { path, answers, problems: problemsOf(method, access, operations[name]) };
  });
  return [...plain, ...ofAgents].map(({ path, answers, problems: codes }) => ({
    path,
    statuses: [...Object.keys(answers).map(Number), ...codes.map((code) => problems[code].status)],
  }));
}

const nothing = { answers: {}, problems: [] };

interface DocumentParts {
  operations: Operations;
  /** Base URL of the API. */
  url: string;
  /** Name of the session cookie. */
  cookie: string;
}

/** Returns the document, ready for JSON. */
export function openApiDocument({ operations, url, cookie }: DocumentParts): Json {
  const schemas = new Schemas();
  const paths: Record<string, Json> = {};
  const add = (method: Method, path: string, item: Json) => {
    const template = templateOf(path);
    paths[template] = { ...paths[template], [method.toLowerCase()]: item };
  };
  for (const [method, path, name, access, meaning] of plainRoutes) {
    const described = plainDescriptions[name];
    if (described === null) continue;
    const { input, answers, problems } = described;
    add(method, path, {
      ...heading(name, path, access, meaning),
      ...parametersOf(pathParameters(path, [])),
      ...(input === undefined ? {} : { requestBody: { required: true, content: contentOf(input, schemas) } }),
      responses: responsesOf(schemas, answers, problems),
      security: plainSecurity[access],
    });
  }
  for (const [method, path, name, access, meaning] of operationRoutes) {
    const operation: Operation = operations[name];
    const { id, innerId, query, input, answers, bytes, representation, sessionOnly = false, idempotent } = operation;
    add(method, path, {
      ...heading(name, path, access, meaning),
      ...parametersOf([
        ...pathParameters(
          path,
          [id, innerId].flatMap((one) =>
            one === undefined ? [] : [{ schema: schemas.taken(one.schema), unknown: one.problem }],
          ),
        ),
        ...queryParameters(query === undefined ? {} : schemas.taken(query)),
        ...(representation === undefined ? [] : [ifMatch]),
        ...(idempotent ? [idempotencyKey] : []),
      ]),
      ...(input === undefined ? {} : { requestBody: requestBody(input, schemas) }),
      responses: responsesOf(schemas, answers, problemsOf(method, access, operation), {
        bytes,
        isTagged: method === 'GET',
      }),
      security: securityOf(method, access, sessionOnly),
    });
  }
  const responses = shareRefusals(paths);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Weir',
      version: release(),
      description:
        'Receives webhooks, stores them as events, and delivers them to agents. Every response has the headers X-Request-Id and Weir-Client, the path of the client package of this release; errors are RFC 9457 problem details.',
      contact: { name: 'The guides of this Weir', url: `${url}/docs` },
    },
    servers: [{ url }],
    tags: tagList,
    paths,
    components: {
      schemas: { ...schemas.components, Problem: problemSchema },
      responses,
      headers,
      securitySchemes: securitySchemes(cookie),
    },
  };
}

function templateOf(path: string): string {
  return path.replace(/:(\w+)/g, '{$1}');
}

function parametersOf(parameters: Json[]): Json {
  return parameters.length === 0 ? {} : { parameters };
}

/** @param ids those of the path, in order. `unknown`: the problem code, which contains the name of the resource: `webhook_unknown` */
function pathParameters(path: string, ids: { schema: Json; unknown: ProblemCode }[]): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name], index) => {
    const { schema = { type: 'string' }, unknown = 'webhook_unknown' } = ids[index] ?? {};
    return {
      name,
      in: 'path',
      required: true,
      description: `id of the ${unknown.replace('_unknown', '')}`,
      schema,
    };
  });
}

/** Each property of the query schema becomes one parameter. */
function queryParameters(schema: Json): Json[] {
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] };
  return Object.entries(properties).map(([name, { description, ...own }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: own,
  }));
}

const ifMatch: Json = {
  name: 'If-Match',
  in: 'header',
  description:
    'the ETag of the resource as it was read. If the resource has changed since, the request is refused with 412.',
  schema: { type: 'string' },
};

const idempotencyKey: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'a request repeated with this key within 24 hours is not executed again: the first response is returned, with the header Idempotent-Replayed',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

/** An empty body reads as {}, so the body is optional if no member is required. */
function requestBody(input: z.ZodType, schemas: Schemas): Json {
  return { required: !input.safeParse({}).success, content: { 'application/json': { schema: schemas.taken(input) } } };
}

function contentOf(input: Readonly<Record<string, z.ZodType | null>>, schemas: Schemas): Json {
  return Object.fromEntries(
    Object.entries(input).map(([type, schema]) => [type, schema === null ? {} : { schema: schemas.taken(schema) }]),
  );
}

/** @param cookie name of the session cookie. */
function securitySchemes(cookie: string): Json {
  return {
    session: { type: 'apiKey', in: 'cookie', name: cookie, description: 'session of a signed-in user' },
    csrf: {
      type: 'apiKey',
      in: 'header',
      name: CSRF_HEADER,
      description: 'required with a session cookie for every change: csrf_token of GET /api/v1/account',
    },
    token: {
      type: 'http',
      scheme: 'bearer',
      description:
        'an API token wu_…, or a JWT of the OpenID Connect provider. A token may revoke itself and the tokens that it created; it cannot change anything else of its own user, and cannot create a token for an administrator or without an expiry (403 `session_required`).',
    },
    agent: { type: 'http', scheme: 'bearer', description: 'a session ws_… or the credential wa_… of an agent' },
    signature: {
      type: 'apiKey',
      in: 'header',
      name: 'X-Hub-Signature-256',
      description:
        'sha256= and the HMAC-SHA256 of the body in hex, in this header, in X-Webhook-Signature, or in the signature_header of the webhook. A webhook without a secret requires no signature.',
    },
  };
}

const plainSecurity: Readonly<Record<string, Json[]>> = {
  anyone: [],
  signature: [{ signature: [] }, {}],
};

/** Alternatives: any one of them is sufficient. */
function securityOf(method: Method, access: OperationAccess, sessionOnly: boolean): Json[] {
  if (access === 'anyone') return [];
  if (access === 'agent' || access === 'agent credential') return [{ agent: [] }];
  const session = method === 'GET' ? { session: [] } : { session: [], csrf: [] };
  if (sessionOnly) return [session];
  return [session, { token: [] }, ...(access === 'viewer or agent' ? [{ agent: [] }] : [])];
}
