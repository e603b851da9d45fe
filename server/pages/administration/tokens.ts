/** /tokens: the user's own API tokens; administrators see all tokens. */
import { allows, type Role, roles } from '../../model/users.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { filtersOf } from '../forms/filters.ts';
import { confirmation, confirmationError } from '../forms/form.ts';
import { asProblem, type Page, redirect, view } from '../page.ts';

/** Lifetimes offered by the form, in days. */
const lifetimes: readonly (readonly [string, string])[] = [
  ['7', '7 days'],
  ['30', '30 days'],
  ['90', '90 days'],
  ['365', 'a year'],
  ['never', 'never'],
];

interface TokenForm {
  name: string;
  role: string;
  expires: string;
}

const tokenList: Page = async ({ person, call, query }) => {
  const filters = filtersOf(query, ['all', 'user_id', 'cursor']);
  const list = await call('listTokens', { query: filters });
  if (list.kind === 'problem') return list;
  const page = list.kind === 'done' ? list.body : { items: [], next_cursor: null };
  const isOwn = filters.all !== 'true' && (filters.user_id ?? person.id) === person.id;
  const errors = list.kind === 'invalid' ? Object.values(list.errors) : [];
  return view('tokens/list', 'Tokens', { filters, page, isOwn, errors });
};

const newToken: Page = async ({ person }) =>
  tokenForm(person.role, { name: '', role: 'viewer', expires: '90' }, noErrors);

const createToken: Page = async ({ person, call, form }) => {
  const given: TokenForm = {
    name: form.get('name') ?? '',
    role: form.get('role') ?? '',
    expires: form.get('expires') ?? '',
  };
  const days = given.expires === 'never' ? null : Number(given.expires);
  const input = { name: given.name, role: given.role, expires_in_days: days, ...confirmation(form) };
  const made = await call('createToken', { input });
  if (made.kind === 'done') return view('tokens/made', 'New token', { token: made.body }, { status: 201, once: true });
  return tokenForm(person.role, given, formErrors(made, confirmationError()));
};

function tokenForm(role: Role, given: TokenForm, { errors, ...feedback }: FormFeedback) {
  const offered = roles.filter((candidate) => allows(role, candidate));
  return view('tokens/new', 'New token', { given, roles: offered, lifetimes, errors }, feedback);
}

const showToken: Page = async ({ id, call }) => {
  const token = await call('showToken', { id });
  if (token.kind !== 'done') return asProblem(token);
  return view('tokens/show', token.body.name, { token: token.body });
};

const revokeToken: Page = async ({ id, call }) => {
  const revoked = await call('revokeToken', { id });
  return revoked.kind === 'done' ? redirect(`/account/tokens/${id}`, 'token-revoked') : asProblem(revoked);
};

export const tokenPages = { tokenList, newToken, createToken, showToken, revokeToken };
