/** /users/:id: one user, and everything that an administrator may change about them. */
import { generatePassword } from '../auth/passwords.ts';
import { roles } from '../core/roles.ts';
import { fieldError, formErrors, noErrors, type Told } from './form-errors.ts';
import { asProblem, type Page, type PageReply, type PageRequest, redirect, view } from './page.ts';

const showUser: Page = (request) => userPage(request, noErrors);

const updateUser: Page = async (request) => {
  const given = { name: request.form.get('name') ?? '', role: request.form.get('role') ?? '' };
  const changed = await request.call('updateUser', { id: request.id, input: given });
  if (changed.kind !== 'done') return userPage(request, formErrors(changed, { last_administrator: 'role' }), given);
  // Whoever gave up the role sees no user any more.
  return redirect(changed.body.id === request.person.id ? '/account' : `/users/${request.id}`, 'saved');
};

const disableUser: Page = (request) => setDisabled(request, true);
const enableUser: Page = (request) => setDisabled(request, false);

async function setDisabled(request: PageRequest, disabled: boolean): Promise<PageReply> {
  const changed = await request.call('updateUser', { id: request.id, input: { disabled } });
  if (changed.kind !== 'done') return userPage(request, formErrors(changed, { last_administrator: 'disabled' }));
  return redirect(`/users/${request.id}`, disabled ? 'user-disabled' : 'user-enabled');
}

const resetPassword: Page = async (request) => {
  const typed = request.form.get('password') ?? '';
  const password = typed === '' ? generatePassword() : typed;
  const changed = await request.call('updateUser', { id: request.id, input: { password } });
  if (changed.kind !== 'done') return userPage(request, formErrors(changed));
  if (typed !== '') return redirect(`/users/${request.id}`, 'password-reset');
  return view('users/password', 'New password', { user: changed.body, generated: password });
};

const deleteUser: Page = async (request) => {
  const { id, call, form } = request;
  const user = await call('showUser', { id });
  if (user.kind !== 'done') return asProblem(user);
  if (form.get('confirm')?.trim().toLowerCase() !== user.body.email.toLowerCase())
    return userPage(request, fieldError('confirm', 'Type the email address of this user.'));
  const deleted = await call('deleteUser', { id });
  if (deleted.kind === 'done') return redirect('/users', 'deleted');
  return userPage(request, formErrors(deleted, { last_administrator: 'confirm' }));
};

export const userPages = { showUser, updateUser, disableUser, enableUser, resetPassword, deleteUser };

/** @param given what was typed, where it was refused. */
async function userPage(
  { id, call, person }: PageRequest,
  { errors, ...told }: Told,
  given?: { name: string; role: string },
): Promise<PageReply> {
  const found = await call('showUser', { id });
  if (found.kind !== 'done') return asProblem(found);
  const user = found.body;
  const data = { user, given: given ?? user, roles, isSelf: user.id === person.id, errors };
  return view('users/show', user.email, data, told);
}
