/** /api/v1/audit: the audit log, for administrators. */
import { z } from 'zod';
import { auditEntrySchema, auditVerdictSchema } from '../../../model/audit.ts';
import { instant } from '../../../model/fields.ts';
import { verifyAudit } from '../../../store/audit/verify.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { type AuditFilter, type AuditRow, listAudit } from '../../../store/queries/users/audit.ts';
import { done, operation } from '../operation.ts';
import { cursorText, pageOf, pageQuery, pageSchema } from '../paging.ts';

const uuid = z.guid('Give an id such as 2f1c0d7e-0000-4000-8000-000000000000.').toLowerCase();

/** Filters of the list and the export. */
const auditFilters = {
  action: z
    .string()
    .regex(/^!?[a-z_.]{1,100}$/, 'Give an action such as webhook.create, or what it begins with.')
    .optional()
    .describe(
      'prefix of the action, e.g. token. or webhook.create; after an exclamation mark: of those that are left out',
    ),
  actor_id: uuid.optional().describe('id of the user'),
  target_id: uuid.optional().describe('id of the changed resource'),
  from: instant.optional().describe('at this time or later'),
  to: instant.optional().describe('before this time'),
};
const filters = z.object(auditFilters);

const listQuery = z.strictObject({
  ...pageQuery,
  cursor: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, 'Give the next_cursor of a page.')
    .optional()
    .describe(cursorText),
  ...auditFilters,
});

/** SHA-256 in hex. */
const auditHash = z
  .string()
  .regex(/^[0-9a-f]{64}$/i, 'Give a hash of 64 hex digits.')
  .toLowerCase();

/** Entries per export, about 1 KB each. */
const EXPORTED_MAX = 10_000;
const EXPORT_TYPE = 'application/x-ndjson';

/** For administrators only, see routes.ts. */
export function auditOperations(database: Database) {
  return {
    listAudit: operation({
      query: listQuery,
      answers: { 200: pageSchema(auditEntrySchema) },
      handle: async ({ query }) => {
        const rows = await listAudit(database, auditFilterOf(query), query.cursor ?? null, query.limit + 1);
        return done(200, pageOf(rows, query.limit, describeEntry));
      },
    }),

    /** Newest first. For older entries, pass the number of the last line as the cursor. */
    exportAudit: operation({
      query: listQuery.omit({ limit: true }),
      answers: { 200: null },
      bytes: { contentTypes: [EXPORT_TYPE] },
      handle: async ({ query }) => {
        const rows = await listAudit(database, auditFilterOf(query), query.cursor ?? null, EXPORTED_MAX);
        const lines = rows.map((row) => `${JSON.stringify(auditEntrySchema.parse(describeEntry(row)))}\n`);
        const headers = { 'content-disposition': 'attachment; filename="audit.jsonl"' };
        return { kind: 'encoded', status: 200, contentType: EXPORT_TYPE, content: lines.join(''), headers };
      },
    }),

    verifyAudit: operation({
      query: z.strictObject({
        head: auditHash
          .optional()
          .describe('hash of an entry that the chain must contain, e.g. of an audit_head in the log'),
      }),
      answers: { 200: auditVerdictSchema },
      handle: async ({ query }) => done(200, await verifyAudit(database, query.head ?? null)),
    }),
  };
}

type AuditEntry = z.input<typeof auditEntrySchema>;

function describeEntry({ id, entry, hash }: AuditRow): AuditEntry {
  return { ...(entry as Omit<AuditEntry, 'number' | 'hash'>), number: Number(id), hash: hash.toString('hex') };
}

function auditFilterOf(given: z.output<typeof filters>): AuditFilter {
  return {
    action: given.action?.replace('!', '') ?? null,
    isLeftOut: given.action?.startsWith('!') ?? false,
    actorId: given.actor_id ?? null,
    targetId: given.target_id ?? null,
    from: given.from ?? null,
    to: given.to ?? null,
  };
}
