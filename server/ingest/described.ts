/** What the routes of webhooks take and answer, for the OpenAPI document. */
import { z } from 'zod';
import type { ProblemCode } from '../errors.ts';

const accepted = z.object({
  id: z.guid().describe('of the event'),
  webhook_id: z.guid(),
  received_at: z.iso.datetime(),
  bytes: z.int(),
});

const batch = z.object({
  accepted: z.int().describe('lines that were stored'),
  ids: z.array(z.guid()).describe("in the order of the lines; a repeated line's is the first one's"),
  duplicates: z.int().optional(),
});

const duplicate = z.literal(true).describe('it was stored before, and was not stored again');

const refusals: readonly ProblemCode[] = [
  'rate_limited',
  'webhook_unknown',
  'webhook_disabled',
  'payload_too_large',
  'signature_missing',
  'signature_malformed',
  'signature_mismatch',
  'memory_full',
  'queue_full',
  'verification_unavailable',
  'row_refused',
];

export const ingestDescriptions = {
  ingest: {
    input: { '*/*': null },
    answers: { 202: accepted, 200: accepted.extend({ duplicate }) },
    problems: refusals,
  },
  ingestBatch: {
    input: { 'application/x-ndjson': null },
    answers: { 202: batch, 200: batch.extend({ duplicate }) },
    problems: [...refusals, 'batch_empty', 'batch_invalid', 'batch_too_large'] as ProblemCode[],
  },
};
