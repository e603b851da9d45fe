import { expect, test } from 'vitest';
import { titleOf } from '../server/base/http/problem.ts';
import { problems } from '../server/model/errors.ts';

/** RFC 9110, section 15, and RFC 6585. */
const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  410: 'Gone',
  411: 'Length Required',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

test.each(Object.entries(problems))(
  '%s has a status, its title, and one or more complete sentences',
  (code, problem) => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(Object.keys(titles)).toContain(String(problem.status));
    expect(titleOf(problem.status)).toBe(titles[problem.status]);
    expect(problem.detail).toMatch(/^[A-Z].+\.$/);
  },
);
