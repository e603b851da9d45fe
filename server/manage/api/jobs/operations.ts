/** /api/v1/jobs. Jobs are created by the routes of what they do. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import { recordId } from '../../../model/fields.ts';
import { jobSchema } from '../../../model/jobs.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findJob, listJobs } from '../../../store/queries/replays/jobs.ts';
import { done, operation, replyTo } from '../operation.ts';
import { cursorProblem, pageOf, pageSchema, recordPageQuery } from '../paging.ts';
import { cancelReplayJob } from './service.ts';

const id = { schema: recordId, problem: 'job_unknown' } as const;

export function jobOperations(database: Database) {
  return {
    listJobs: operation({
      query: z.strictObject(recordPageQuery),
      answers: { 200: pageSchema(jobSchema) },
      handle: async ({ query: { cursor, limit } }) => {
        const rows = await listJobs(database, cursor ?? null, limit + 1);
        const wrong = await cursorProblem(database, 'jobs', cursor, rows);
        if (wrong !== null) return wrong;
        return done(
          200,
          pageOf(rows, limit, (row) => row),
        );
      },
    }),

    showJob: operation({
      id,
      answers: { 200: jobSchema },
      handle: async ({ id }) => {
        const job = await findJob(database.query, id);
        return job === undefined ? problem('job_unknown') : done(200, job);
      },
    }),

    cancelJob: operation({
      id,
      answers: { 200: jobSchema },
      problems: ['job_finished'],
      handle: async ({ actor, id }) => replyTo(await cancelReplayJob(database, actor, id), (job) => done(200, job)),
    }),
  };
}
