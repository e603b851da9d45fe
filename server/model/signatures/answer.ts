/** The answer to a request that was stored, for senders that demand another one than Weir's default. */
import { z } from 'zod';
import { compilePath, type PathStep, scanString } from './json-scan.ts';
import { pointerOf } from './sources.ts';

/** Longest body, and longest text that `body_from` reads. */
const ANSWER_BYTES_MAX = 1_024;
const pointer = /^(?:\/(?:[^/~\p{Cc}]|~[01]){0,100}){1,8}$/u;

export const answerSchema = z
  .strictObject({
    status: z.literal([200, 201, 202, 204]).describe('of the response'),
    content_type: z
      .enum(['text/plain', 'application/json', 'application/xml'])
      .optional()
      .describe('of body or body_from; default: text/plain'),
    body: z
      .string()
      .refine((text) => Buffer.byteLength(text) <= ANSWER_BYTES_MAX, `Give at most ${ANSWER_BYTES_MAX} bytes.`)
      .refine((text) => !/[\p{Cc}\p{Cs}]/u.test(text), 'Control characters are not allowed.')
      .optional()
      .describe(`at most ${ANSWER_BYTES_MAX} bytes; default: the id of the event and more, as JSON`),
    body_from: z
      .string()
      .regex(pointer, 'Give a JSON Pointer, such as /challenge.')
      .optional()
      .describe(
        `JSON Pointer to a string of the request, at most ${ANSWER_BYTES_MAX} bytes, which is sent back; a request without it gets the default`,
      ),
  })
  .meta({ id: 'Answer' });
export type Answer = z.output<typeof answerSchema>;

/** Status of the response to a request whose signature is refused. */
export const refusedStatusSchema = z.literal([401, 403]);
export type RefusedStatus = z.output<typeof refusedStatusSchema>;

/** What is wrong with the members together; null: nothing. @param verifies whether the scheme verifies requests */
export function answerFault({ status, content_type, body, body_from }: Answer, verifies: boolean): string | null {
  const isOwn = body !== undefined || body_from !== undefined;
  if (status === 204 && (isOwn || content_type !== undefined))
    return 'Status 204 has no body: leave out content_type, body and body_from.';
  if (body !== undefined && body_from !== undefined) return 'Give body or body_from, not both.';
  if (content_type !== undefined && !isOwn) return 'content_type needs body or body_from.';
  if (body_from !== undefined && !verifies)
    return 'body_from needs a scheme that verifies requests: give the webhook a secret or a public key.';
  return null;
}

export interface CompiledAnswer {
  readonly status: Answer['status'];
  readonly contentType: string;
  readonly body: string | null;
  readonly path: readonly PathStep[] | null;
}

/** Compiles an answer of a webhook or of a scheme, as `answerBody` needs it. */
export function compileAnswer({ status, content_type, body, body_from }: Answer): CompiledAnswer {
  return {
    status,
    contentType: content_type ?? 'text/plain',
    body: status === 204 ? '' : (body ?? null),
    path: body_from === undefined ? null : compilePath(pointerOf(`json:${body_from}`)!),
  };
}

/** The body of the answer to a request; null: the default. */
export function answerBody({ body, path }: CompiledAnswer, request: Uint8Array): string | null {
  if (path === null) return body;
  const text = scanString(request, path, ANSWER_BYTES_MAX + 1);
  return text === null || Buffer.byteLength(text) > ANSWER_BYTES_MAX ? null : text;
}
