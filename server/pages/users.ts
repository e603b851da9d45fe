/** /users: the list of users, and new users. */
import { roles } from '../model/users.ts';
import { filtersOf } from './filters.ts';
import { confirmation, confirmationError } from './form.ts';
import { type FormFeedback, formErrors, noErrors } from './form-errors.ts';
import { listOf, type Page, redirect, view } from './page.ts';

const userList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['q', 'role', 'cursor']);
  const listed = await call('listUsers', { query: filters });
  return listed.kind === 'problem' ? listed : view('users/list', 'Users', { filters, roles, ...listOf(listed) });
};

const newUser: Page = async () => userForm({ email: '', name: '', role: 'viewer' }, noErrors);

const createUser: Page = async ({ call, form }) => {
  const field = (name: string) => form.get(name) ?? '';
  const given = { email: field('email'), name: field('name'), role: field('role') };
  // An empty password is replaced with a generated one.
  const password = field('password') || undefined;
  const made = await call('createUser', { input: { ...given, password, ...confirmation(form) } });
  if (made.kind !== 'done') return userForm(given, formErrors(made, { email_taken: 'email', ...confirmationError() }));
  const { generated_password: generated, ...user } = made.body;
  if (generated === null) return redirect(`/users/${user.id}`, 'user-created');
  return view('users/password', 'New user', { user, generated, revoked: null }, { status: 201, once: true });
};

function userForm(given: { email: string; name: string; role: string }, { errors, ...feedback }: FormFeedback) {
  return view('users/new', 'New user', { given, roles, errors }, feedback);
}

export const userListPages = { userList, newUser, createUser };
