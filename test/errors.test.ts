import { STATUS_CODES } from 'node:http';
import { expect, test } from 'vitest';
import { problems } from '../server/errors.ts';

test.each(Object.entries(problems))(
  '%s has a status, its title, and one or more complete sentences',
  (code, problem) => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(problem.status).toBeGreaterThanOrEqual(400);
    // Node has names of 413 and 422 from older RFCs; the table has those of RFC 9110.
    const title = { 413: 'Content Too Large', 422: 'Unprocessable Content' }[problem.status as number];
    expect(problem.title).toBe(title ?? STATUS_CODES[problem.status]);
    expect(problem.detail).toMatch(/^[A-Z].+\.$/);
  },
);
