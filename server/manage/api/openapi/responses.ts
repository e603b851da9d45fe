/** The responses of a route: successes and problems. */
import type { z } from 'zod';
import type { ProblemCode } from '../../../model/errors.ts';
import type { AnswerBytes } from '../operation.ts';
import { PROBLEM_TYPE, problemResponses } from './problems.ts';
import type { Json, Schemas } from './schemas.ts';

type Answers = Readonly<Record<number, z.ZodType | null>>;
type Responses = Record<string, Json>;

const requestId = { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } };

/**
 * One response per status. A status used for both success and problem has both contents.
 * @param isTagged a 200 with JSON has an entity tag
 */
export function responsesOf(
  schemas: Schemas,
  answers: Answers,
  problems: readonly ProblemCode[],
  { bytes, isTagged = false }: { bytes?: AnswerBytes | undefined; isTagged?: boolean } = {},
): Responses {
  const refusals: Responses = problemResponses(problems);
  const successes = Object.entries(answers).map(([status, schema]): [string, Json] => {
    const { content: refusal = {} } = refusals[status] ?? {};
    return [
      status,
      schema === null
        ? withoutSchema(status, bytes)
        : success(schemas, status, schema, { isTagged, more: refusal as Json }),
    ];
  });
  const cached = isTagged && answers[200] ? { 304: { description: meanings[304], headers: requestId } } : {};
  return { ...refusals, ...Object.fromEntries(successes), ...cached };
}

/** A response without a schema: 200 has bytes of the operation's own type, other statuses have no content. */
function withoutSchema(status: string, { contentTypes, headers = {} }: AnswerBytes = { contentTypes: ['*/*'] }): Json {
  const fields = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ]);
  return {
    description: meanings[status],
    headers: { ...requestId, ...Object.fromEntries(fields) },
    ...(status === '200' ? { content: Object.fromEntries(contentTypes.map((type) => [type, {}])) } : {}),
  };
}

/** A response with a JSON body. @param more other contents of the status */
function success(
  schemas: Schemas,
  status: string,
  schema: z.ZodType,
  { isTagged, more }: { isTagged: boolean; more: Json },
): Json {
  const tag = isTagged && status === '200' ? { ETag: { $ref: '#/components/headers/ETag' } } : {};
  return {
    description: meanings[status],
    headers: { ...requestId, ...tag },
    content: { 'application/json': { schema: schemas.given(schema) }, ...more },
  };
}

const meanings: Readonly<Record<string, string>> = {
  200: 'done',
  201: 'created',
  202: 'accepted',
  204: 'done; no content',
  304: 'not modified: If-None-Match names the current ETag',
  503: 'not ready',
};

/**
 * Replaces the refusals in the operations of the paths, most of which are equal, with references to components, and returns these. The
 * document has 317 kB instead of 641, and is therefore sent in half the time to a client that accepts no compression.
 */
export function shareRefusals(paths: Readonly<Record<string, Json>>): Record<string, Json> {
  const components: Record<string, Json> = {};
  const names = new Map<string, string>();
  const nameOf = (status: string, response: Json) => {
    const text = JSON.stringify(response);
    let name = names.get(text);
    if (name === undefined) {
      let number = 1;
      while (`Refusal${status}-${number}` in components) number++;
      name = `Refusal${status}-${number}`;
      names.set(text, name);
      components[name] = response;
    }
    return name;
  };
  for (const item of Object.values(paths))
    for (const operation of Object.values(item) as { responses: Responses }[])
      for (const [status, response] of Object.entries(operation.responses))
        if (isRefusal(response))
          operation.responses[status] = { $ref: `#/components/responses/${nameOf(status, response)}` };
  return components;
}

/** A response with a problem document and nothing else. */
function isRefusal({ content = {} }: Json): boolean {
  return Object.keys(content as Json).join() === PROBLEM_TYPE;
}

/** Header components that the responses refer to. */
export const headers: Json = {
  'X-Request-Id': {
    description: 'id of the request: its own X-Request-Id if well-formed, else a generated one',
    schema: { type: 'string' },
  },
  'Retry-After': { description: 'seconds to wait before the next attempt', schema: { type: 'integer' } },
  ETag: { schema: { type: 'string' } },
};
