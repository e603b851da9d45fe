/** /account: who somebody is here, their password, and where they are signed in. */
import { browserName } from '../core/browser-name.ts';
import { fieldError, formErrors, noErrors, type Told } from './form-errors.ts';
import { asProblem, type Page, type PageReply, type PageRequest, redirect, view } from './page.ts';

const account: Page = (request) => accountPage(request, noErrors);

const changePassword: Page = async (request) => {
  const field = (name: string) => request.form.get(name) ?? '';
  if (field('new_password') !== field('new_password_again'))
    return accountPage(request, fieldError('new_password_again', 'This is not the same password.'));
  const input = { current_password: field('current_password'), new_password: field('new_password') };
  const changed = await request.call('changePassword', { input });
  return changed.kind === 'done' ? redirect('/account', 'password-changed') : accountPage(request, formErrors(changed));
};

const endSession: Page = async ({ id, call }) => {
  const ended = await call('endSession', { id });
  if (ended.kind !== 'done') return asProblem(ended);
  // It was this one when its cookie is taken away.
  const isOwn = 'set-cookie' in ended.headers;
  return redirect(isOwn ? '/sign-in' : '/account', isOwn ? 'signed-out' : 'session-ended', ended.headers);
};

const signOutEverywhere: Page = async ({ call }) => {
  const ended = await call('endSessions');
  if (ended.kind !== 'done') return asProblem(ended);
  return redirect('/sign-in', 'signed-out-everywhere', ended.headers);
};

export const accountPages = { account, changePassword, endSession, signOutEverywhere };

async function accountPage({ call }: PageRequest, { errors, ...told }: Told): Promise<PageReply> {
  const sessions = await call('listSessions');
  if (sessions.kind !== 'done') return asProblem(sessions);
  return view('account', 'Account', { sessions: sessions.body.items, browserName, errors }, told);
}
