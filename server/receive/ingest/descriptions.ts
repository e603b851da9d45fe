/** Inputs and answers of the ingest routes, for the OpenAPI document. */
import { z } from 'zod';
import type { ProblemCode } from '../../model/errors.ts';
import { example, idOf, receivedAt } from '../../model/fields.ts';

const accepted = z.object({
  id: idOf('event'),
  webhook_id: idOf('webhook'),
  received_at: receivedAt,
  bytes: z.int().describe('size of the body in bytes'),
});

const batch = z.object({
  accepted: z.int().describe('lines that were stored'),
  ids: z
    .array(z.guid())
    .describe('ids of the events in the order of the lines; a duplicate line has the id of the first one'),
  duplicates: z.int().optional().describe('duplicate lines, which were not stored again; absent: none'),
});

const body = z.unknown().meta({
  description: 'any bytes, up to max_payload_bytes of the webhook; the signature covers exactly these bytes',
  examples: [{ type: 'order.created', order: { id: 1042 } }],
});
const lines = z.unknown().meta({
  description: 'newline-delimited JSON; each line becomes an event',
  examples: ['{"type":"order.created","order":{"id":1042}}\n{"type":"order.paid","order":{"id":1042}}\n'],
});
const { event_id, webhook_id, received_at } = example;
const acceptedExample = { examples: [{ id: event_id, webhook_id, received_at, bytes: 44 }] };
const batchExample = { examples: [{ accepted: 2, ids: [event_id, '01a1ffb6-1f30-7b8f-8c11-90e2d7a45b06'] }] };

const duplicate = z.literal(true).describe('the request is a duplicate and was not stored again');

const refusals: readonly ProblemCode[] = [
  'rate_limited',
  'webhook_unknown',
  'webhook_disabled',
  'payload_too_large',
  'signature_missing',
  'signature_malformed',
  'signature_mismatch',
  'signature_timestamp',
  'signature_body_too_complex',
  'signature_unauthenticated',
  'memory_full',
  'queue_full',
  'verification_unavailable',
  'secret_unavailable',
  'row_refused',
];

const handshakeProblems: readonly ProblemCode[] = ['method_not_allowed', 'verify_token_mismatch', 'rate_limited'];

export const ingestDescriptions = {
  handshake: { answers: { 200: null }, problems: handshakeProblems },
  handshakeOptions: { answers: { 200: null }, problems: handshakeProblems },
  ingest: {
    input: { '*/*': body },
    answers: { 202: accepted.meta(acceptedExample), 200: accepted.extend({ duplicate }) },
    problems: refusals,
  },
  ingestBatch: {
    input: { 'application/x-ndjson': lines },
    answers: { 202: batch.meta(batchExample), 200: batch.extend({ duplicate }) },
    problems: [...refusals, 'batch_unsupported', 'batch_empty', 'batch_invalid', 'batch_too_large'] as ProblemCode[],
  },
};
