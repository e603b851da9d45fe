/** /users: the list, new users, and all changes that an administrator may make to a user. */
import { allows, roles } from '../../model/users.ts';
import { confirmation, confirmationError, filtersOf, formErrors, noErrors, textsOf } from '../forms/form.ts';
import {
  action,
  asProblem,
  type FormFeedback,
  formView,
  itemsOf,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  redirect,
  view,
} from '../page.ts';
import { plural } from '../show.ts';

const userList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['q', 'role', 'cursor']);
  const listed = await call('listUsers', { query: filters });
  return listed.kind === 'problem' ? listed : view('users/list', 'Users', { filters, roles, ...listOf(listed) });
};

const newUser: Page = async () => userForm({ email: '', name: '', role: 'viewer' }, noErrors);

/** Without a password the user is invited. */
const createUser =
  (hosted: boolean): Page =>
  async ({ call, form }) => {
    const { password: typed, ...given } = textsOf(form, ['email', 'name', 'role', 'password']);
    const password = typed || undefined;
    const access = hosted || password !== undefined ? { password } : { invite: true };
    const made = await call('createUser', { input: { ...given, ...access, ...confirmation(form) } });
    if (made.kind !== 'done')
      return userForm(given, formErrors(made, { email_taken: 'email', ...confirmationError() }));
    const { invitation_url: url, ...user } = made.body;
    if (url === null) return redirect(`/users/${user.id}`, 'user-created');
    return view('users/invitation', 'New user', { user, url }, { status: 201, once: true });
  };

const userForm = (given: object, feedback: FormFeedback) =>
  formView('users/new', 'New user', { given, roles }, feedback);

/** @param hosted AUTH_MODE is hosted: users have no passwords */
export const userListPages = (hosted: boolean) => ({ userList, newUser, createUser: createUser(hosted) });

const TOKENS_COUNTED_MAX = 200;

const showUser: Page = (request) => userPage(request, noErrors);

const updateUser: Page = async (request) => {
  const given = textsOf(request.form, ['name', 'role']);
  const input = { ...given, ...confirmation(request.form) };
  const changed = await request.call('updateUser', { id: request.id, input });
  if (changed.kind !== 'done') {
    const feedback = formErrors(changed, { last_administrator: 'role', ...confirmationError('role') });
    return userPage(request, feedback, { given });
  }
  // Administrators who lower their own role lose access to /users.
  const losesAccess = changed.body.id === request.person.id && !allows(changed.body.role, 'administrator');
  return redirect(losesAccess ? '/account' : `/users/${request.id}`, 'saved');
};

const disableUser: Page = (request) => setDisabled(request, true);
const enableUser: Page = (request) => setDisabled(request, false);

async function setDisabled(request: PageRequest, disabled: boolean): Promise<PageReply> {
  const input = { disabled, ...confirmation(request.form) };
  const changed = await request.call('updateUser', { id: request.id, input });
  if (changed.kind !== 'done')
    return userPage(request, formErrors(changed, { last_administrator: 'disabled', ...confirmationError('disabled') }));
  return redirect(`/users/${request.id}`, disabled ? 'user-disabled' : 'user-enabled');
}

const resetPassword: Page = async (request) => {
  const password = request.form.get('password') || undefined;
  const revokeTokens = request.form.has('revoke_tokens');
  const given = password === undefined ? { generate_password: true } : { password };
  const input = { ...given, revoke_tokens: revokeTokens, ...confirmation(request.form) };
  const changed = await request.call('updateUser', { id: request.id, input });
  if (changed.kind !== 'done')
    return userPage(request, formErrors(changed, confirmationError('password')), { revokeTokens });
  const { revoked_tokens: revoked, generated_password: generated } = changed.body;
  if (generated !== null) {
    const shown = { user: changed.body, generated, revoked: revokeTokens ? revoked : null };
    return view('users/password', 'New password', shown, { once: true });
  }
  if (!revokeTokens) return redirect(`/users/${request.id}`, 'password-reset');
  return redirect(`/users/${request.id}?count=${revoked}`, 'password-reset-tokens-revoked');
};

const inviteUser: Page = async (request) => {
  const invited = await request.call('inviteUser', { id: request.id, input: confirmation(request.form) });
  if (invited.kind !== 'done') return userPage(request, formErrors(invited, confirmationError('invitation')));
  const { invitation_url: url, ...user } = invited.body;
  return view('users/invitation', 'New invitation link', { user, url }, { once: true });
};

const revokeInvitation = action('revokeInvitation', (_, { id }) => redirect(`/users/${id}`, 'invitation-revoked'));

const deleteUser: Page = async (request) => {
  const { id, call, form } = request;
  const user = await call('showUser', { id });
  if (user.kind !== 'done') return asProblem(user);
  const deleted = await call('deleteUser', { id, name: user.body.email, input: confirmation(form) });
  if (deleted.kind === 'done') return redirect('/users', 'deleted');
  const feedback = formErrors(deleted, { last_administrator: 'confirmed', ...confirmationError('delete') });
  return userPage(request, feedback, { confirmed: form.get('confirmed') ?? '' });
};

export const userPages = {
  showUser,
  updateUser,
  disableUser,
  enableUser,
  resetPassword,
  inviteUser,
  revokeInvitation,
  deleteUser,
};

interface FormInput {
  given?: { name: string; role: string };
  revokeTokens?: boolean;
  confirmed?: string;
}

/** @param typed the input of a refused form; never a password. */
async function userPage(
  { id, call, person }: PageRequest,
  feedback: FormFeedback,
  { given, revokeTokens = true, confirmed = '' }: FormInput = {},
): Promise<PageReply> {
  const found = await call('showUser', { id });
  if (found.kind !== 'done') return asProblem(found);
  const user = found.body;
  const isSelf = user.id === person.id;
  const tokens = itemsOf(await call('listTokens', { query: { user_id: id, limit: String(TOKENS_COUNTED_MAX) } }));
  const active = tokens.items.filter(({ state }) => state === 'active').length;
  const data = {
    user,
    given: given ?? user,
    revokeTokens,
    confirmed,
    roles,
    isSelf,
    disabling: disablingOf(user.email, active, tokens.next_cursor !== null),
  };
  return formView('users/show', user.email, data, feedback);
}

/** What disabling the user breaks. */
function disablingOf(email: string, active: number, more: boolean): string {
  const count = `${more ? 'at least ' : ''}${plural(active, 'API token')}`;
  return `${email} is signed out everywhere at once${active === 0 ? '.' : `, and programs with ${count} of this user stop.`}`;
}
