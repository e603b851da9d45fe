/** /api/v1/issues and /api/v1/alerts: what needs a person, now and before, and which of it was reported. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import type { Settings } from '../../../base/settings/read.ts';
import { coalesced, within } from '../../../base/time/every.ts';
import { alertSchema, alertTestSchema } from '../../../model/alerts.ts';
import { recordId, text } from '../../../model/fields.ts';
import { issueChangeable, issueInput, issueKind, issueSchema, issueStates } from '../../../model/issues.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { listAlerts } from '../../../store/queries/alerts/alerts.ts';
import { findIssue, type IssueRow, listIssues, updateIssue } from '../../../store/queries/alerts/issues.ts';
import { describeAlert, describeIssue, unstored } from '../../conditions/describe.ts';
import { recordHeld } from '../../conditions/issues.ts';
import { postAlert } from '../../conditions/post.ts';
import { heldReader, type ReaderParts } from '../../conditions/read.ts';
import { done, operation } from '../operation.ts';
import { flag, flagValue, listUpTo, pageOf, pageSchema, recordPageQuery } from '../paging.ts';

const SUBJECTS_MAX = 100;
const listQuery = z.strictObject({
  ...recordPageQuery,
  state: z.enum(issueStates).optional().describe('only issues in this state'),
  kind: issueKind.optional().describe('only issues of this kind'),
  subject_id: listUpTo(SUBJECTS_MAX, text(1, 300))
    .optional()
    .describe(
      `only issues of this webhook, agent, machine, process or cell; several ids are separated by commas, at most ${SUBJECTS_MAX}`,
    ),
});

/** With more issues than this, readers share an update for SHARED_MS: updating tens of thousands takes a second of processor time. */
const SHARED_MIN = 1_000;
const SHARED_MS = 15_000;
/** Longest wait of a request for the update of the issues. A later response has the result of an update that takes longer or fails. */
const UPDATE_MS_MAX = 1_000;

const target = { schema: recordId, problem: 'issue_unknown' } as const;

/** `updateIssues` brings the stored issues up to date; the lists wait for it up to UPDATE_MS_MAX. */
export function issueOperations(parts: ReaderParts) {
  const { settings, database } = parts;
  const read = heldReader(parts);
  /** The current outage of the database, which is stored only after its end; empty without one. */
  let outage: IssueRow[] = [];
  /** Readers share the last update until this time. Monotonic clock, in milliseconds. */
  let sharedUntilMs = 0;
  const update = coalesced(async () => {
    const nowMs = Date.now();
    const { held, cut } = await read(nowMs);
    outage = held.filter(({ kind }) => kind === 'database').map((one) => unstored(one, nowMs));
    try {
      await recordHeld(database, held, nowMs, cut);
      // A reading during an outage is not shared: after its end, readers would see the outage beside its stored issue.
      sharedUntilMs = held.length > SHARED_MIN && outage.length === 0 ? performance.now() + SHARED_MS : 0;
    } catch (error) {
      if (outage.length === 0) throw error;
    }
  });
  const updateInTime = async () => {
    if (performance.now() >= sharedUntilMs)
      await within(
        UPDATE_MS_MAX,
        update().catch(() => null),
      );
  };
  const find = (id: string) => outage.find((one) => one.id === id) ?? findIssue(database.query, id);
  const describe = (row: IssueRow) => describeIssue(row, settings.PUBLIC_URL, Date.now());

  return {
    updateIssues: update,
    operations: {
      listIssues: operation({
        query: listQuery,
        answers: { 200: pageSchema(issueSchema) },
        handle: async ({ query: { state = null, kind = null, subject_id: subjectIds = null, cursor, limit } }) => {
          await updateInTime();
          const rows = await listIssues(database, { state, kind, subjectIds }, cursor ?? null, limit + 1);
          const fits =
            (cursor ?? state ?? 'open') === 'open' && (kind ?? 'database') === 'database' && subjectIds === null;
          const page = pageOf(rows, limit, describe);
          return done(200, { ...page, items: [...(fits ? outage.map(describe) : []), ...page.items] });
        },
      }),

      showIssue: operation({
        id: target,
        answers: { 200: issueSchema },
        changeable: issueChangeable,
        handle: async ({ id }) => {
          await updateInTime();
          const row = await find(id);
          return row === undefined ? problem('issue_unknown') : done(200, describe(row));
        },
      }),

      updateIssue: operation({
        id: target,
        input: issueInput,
        answers: { 200: issueSchema },
        representation: issueSchema,
        changeable: issueChangeable,
        handle: ({ actor, id, input, matches }) =>
          database.transaction(async (query) => {
            const before = await findIssue(query, id, true);
            if (before === undefined) return problem('issue_unknown');
            const issue = describe(before);
            if (!matches(issue)) return problem('precondition_failed');
            await updateIssue(query, id, input);
            const after = describe((await findIssue(query, id))!);
            const members = Object.keys(input) as (keyof typeof input)[];
            const states = [issue, after].map((one) => Object.fromEntries(members.map((name) => [name, one[name]])));
            const about = { kind: 'issue', id, name: issue.title };
            await record(query, actor, {
              action: 'issue.update',
              target: about,
              before: states[0]!,
              after: states[1]!,
            });
            return done(200, after);
          }),
      }),
    },
  };
}

const alertQuery = z.strictObject({
  ...recordPageQuery,
  active: flag.optional().describe('true: only active alerts; false: only ended alerts'),
});

interface AlertParts {
  settings: Pick<Settings, 'PUBLIC_URL' | 'ALERT_URL' | 'ALERT_SECRET' | 'ALERT_PRIVATE_NETWORKS'>;
  database: Database;
}

/** @param settings with ALERT_URL, to which the test alert is sent */
export function alertOperations({ settings, database }: AlertParts) {
  return {
    listAlerts: operation({
      query: alertQuery,
      answers: { 200: pageSchema(alertSchema) },
      handle: async ({ query: { active, cursor, limit } }) => {
        const rows = await listAlerts(database, flagValue(active), cursor ?? null, limit + 1);
        return done(
          200,
          pageOf(rows, limit, (row) => ({ ...describeAlert(row, settings.PUBLIC_URL), requests: row.requests })),
        );
      },
    }),

    testAlert: operation({
      answers: { 200: alertTestSchema },
      problems: ['alert_url_unset'],
      /** Sends a test alert to ALERT_URL, once, and records who sent it. */
      handle: async ({ actor }) => {
        const { ALERT_URL, PUBLIC_URL } = settings;
        if (ALERT_URL === undefined) return problem('alert_url_unset');
        const id = randomUUID();
        const nowMs = Date.now();
        const url = `${PUBLIC_URL}/status#alerts`;
        const text = `This is a test alert of Weir. ${url}`;
        const body = JSON.stringify({ type: 'alert.test', timestamp: new Date(nowMs).toISOString(), text, url });
        const posted = await postAlert({ ...settings, ALERT_URL }, { id, body }, nowMs);
        const { status, durationMs } = posted;
        const sent = posted.kind === 'sent';
        // The host alone: the path of ALERT_URL may be a secret.
        const target = { kind: 'alert', id: null, name: new URL(ALERT_URL).host };
        await database.transaction((query) =>
          record(query, actor, { action: 'alert.test', target, after: { sent, status } }),
        );
        const [error, fix] = posted.kind === 'sent' ? [null, null] : [posted.error, posted.fix];
        return done(200, { id, sent, status, duration_ms: durationMs, error, fix });
      },
    }),
  };
}
