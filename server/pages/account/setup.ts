/** /setup: creates the first administrator, at the URL that the first start printed. */

import { problem } from '../../base/http/problem.ts';
import type { Person } from '../../manage/auth/person.ts';
import { type ProblemCode, problems } from '../../model/errors.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { type Page, redirect, view } from '../page.ts';

interface SetupParts {
  /** Why setup is closed; null when no administrator exists yet. */
  whyClosed: () => Promise<ProblemCode | null>;
}

export function setupPages({ whyClosed }: SetupParts) {
  const setUp: Page<Person | null> = async ({ query }) => {
    const closed = await whyClosed();
    if (closed !== null) return problem(closed);
    return setupForm({ token: query.get('token') ?? '', email: '', name: '' }, noErrors);
  };

  const doSetUp: Page<Person | null> = async ({ form, call }) => {
    const field = (name: string) => form.get(name) ?? '';
    const given = { token: field('token'), email: field('email'), name: field('name') };
    const made = await call('setUp', { input: { ...given, password: field('password') } });
    if (made.kind === 'done') return redirect('/', 'set-up', made.headers);
    if (made.kind === 'problem' && problems[made.code].status === 404) return made;
    return setupForm(given, formErrors(made, { email_taken: 'email' }));
  };

  return { setUp, doSetUp };
}

function setupForm(given: { token: string; email: string; name: string }, { errors, ...feedback }: FormFeedback) {
  return view('setup', 'Set up Weir', { given, errors }, feedback);
}
