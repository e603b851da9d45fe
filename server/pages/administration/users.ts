/** /users: the list of users, and new users. */
import { roles } from '../../model/users.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { filtersOf } from '../forms/filters.ts';
import { confirmation, confirmationError } from '../forms/form.ts';
import { listOf, type Page, redirect, view } from '../page.ts';

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
    const field = (name: string) => form.get(name) ?? '';
    const given = { email: field('email'), name: field('name'), role: field('role') };
    const password = field('password') || undefined;
    const access = hosted || password !== undefined ? { password } : { invite: true };
    const made = await call('createUser', { input: { ...given, ...access, ...confirmation(form) } });
    if (made.kind !== 'done')
      return userForm(given, formErrors(made, { email_taken: 'email', ...confirmationError() }));
    const { invitation_url: url, ...user } = made.body;
    if (url === null) return redirect(`/users/${user.id}`, 'user-created');
    return view('users/invitation', 'New user', { user, url }, { status: 201, once: true });
  };

function userForm(given: { email: string; name: string; role: string }, { errors, ...feedback }: FormFeedback) {
  return view('users/new', 'New user', { given, roles, errors }, feedback);
}

/** @param hosted AUTH_MODE is hosted: users have no passwords */
export const userListPages = (hosted: boolean) => ({ userList, newUser, createUser: createUser(hosted) });
