/** /invitation: an invited user chooses a password. */

import { problem } from '../../base/http/problem.ts';
import { invitedUser } from '../../manage/auth/invitations.ts';
import type { Person } from '../../manage/auth/person.ts';
import type { Database } from '../../store/connect/pool.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { type Page, type PageReply, redirect, view } from '../page.ts';

/** @param hosted AUTH_MODE is hosted: users have no passwords */
export function invitationPages(database: Database, hosted: boolean) {
  async function form(token: string, { errors, ...feedback }: FormFeedback): Promise<PageReply> {
    if (hosted) return problem('local_mode_only');
    const user = await invitedUser(database, token);
    if (user === undefined) return problem('invitation_refused');
    return view('invitation', 'Choose a password', { token, email: user.email, errors }, feedback);
  }

  const invitation: Page<Person | null> = ({ query }) => form(query.get('token') ?? '', noErrors);

  const acceptInvitation: Page<Person | null> = async ({ form: given, call }) => {
    const token = given.get('token') ?? '';
    const accepted = await call('acceptInvitation', { input: { token, password: given.get('password') ?? '' } });
    if (accepted.kind === 'done') return redirect('/', 'invitation-accepted', accepted.headers);
    return form(token, formErrors(accepted));
  };

  return { invitation, acceptInvitation };
}
