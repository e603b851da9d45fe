/** /account: the signed-in user, the password, the user's sessions and API tokens; administrators see all tokens. */
import { allows, type Role, roles } from '../../model/users.ts';
import {
  confirmation,
  confirmationError,
  fieldError,
  filtersOf,
  formErrors,
  noErrors,
  textsOf,
} from '../forms/form.ts';
import {
  action,
  asProblem,
  type FormFeedback,
  formView,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  redirect,
  view,
} from '../page.ts';

const account: Page = (request) => accountPage(request, noErrors);

const changePassword: Page = async (request) => {
  const { new_password_again, ...passwords } = textsOf(request.form, [
    'current_password',
    'new_password',
    'new_password_again',
  ]);
  const revokeTokens = request.form.has('revoke_tokens');
  if (passwords.new_password !== new_password_again)
    return accountPage(request, fieldError('new_password_again', 'The passwords do not match.'), revokeTokens);
  const changed = await request.call('changePassword', { input: { ...passwords, revoke_tokens: revokeTokens } });
  if (changed.kind !== 'done') return accountPage(request, formErrors(changed), revokeTokens);
  if (!revokeTokens) return redirect('/account', 'password-changed');
  return redirect(`/account?count=${changed.body.revoked_tokens}`, 'password-changed-tokens-revoked');
};

const endSession = action('endSession', ({ headers }) =>
  // A removed cookie means that the user ended the current session.
  'set-cookie' in headers ? redirect('/sign-in', 'signed-out', headers) : redirect('/account', 'session-ended'),
);

const signOutEverywhere = action('endSessions', ({ headers }) =>
  redirect('/sign-in', 'signed-out-everywhere', headers),
);

export const accountPages = { account, changePassword, endSession, signOutEverywhere };

/** @param revokeTokens the checkbox value of a refused form. */
async function accountPage({ call }: PageRequest, feedback: FormFeedback, revokeTokens = true): Promise<PageReply> {
  const sessions = await call('listSessions');
  if (sessions.kind !== 'done') return asProblem(sessions);
  return formView('account', 'Account', { sessions: sessions.body.items, browserName, revokeTokens }, feedback);
}

/** The first match counts: most browsers also name Chrome and Safari. */
const browsers = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\/|\bOpera\b/, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Chrome|HeadlessChrome|CriOS|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
] as const;

const systems = [
  [/\b(?:iPhone|iPod)\b/, 'an iPhone'],
  [/\biPad\b/, 'an iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
] as const;

/** Readable name, e.g. `Firefox on Linux`, for display only: a client can send any User-Agent. The shortened User-Agent when it contains no known name. */
export function browserName(userAgent: string): string {
  const find = (names: typeof browsers | typeof systems) => names.find(([pattern]) => pattern.test(userAgent))?.[1];
  const [browser, system] = [find(browsers), find(systems)];
  if (browser === undefined) return userAgent.slice(0, 40) || 'Unknown';
  return system === undefined ? browser : `${browser} on ${system}`;
}

/** Lifetimes offered by the form, in days. */
const lifetimes: readonly (readonly [string, string])[] = [
  ['7', '7 days'],
  ['30', '30 days'],
  ['90', '90 days'],
  ['365', 'a year'],
  ['never', 'never'],
];

const tokenList: Page = async ({ person, call, query }) => {
  const filters = filtersOf(query, ['all', 'user_id', 'cursor']);
  const listed = await call('listTokens', { query: filters });
  if (listed.kind === 'problem') return listed;
  const isOwn = filters.all !== 'true' && (filters.user_id ?? person.id) === person.id;
  return view('tokens/list', 'Tokens', { filters, isOwn, ...listOf(listed) });
};

const newToken: Page = async ({ person }) =>
  tokenForm(person.role, { name: '', role: 'viewer', expires: '90' }, noErrors);

const createToken: Page = async ({ person, call, form }) => {
  const given = textsOf(form, ['name', 'role', 'expires']);
  const days = given.expires === 'never' ? null : Number(given.expires);
  const input = { name: given.name, role: given.role, expires_in_days: days, ...confirmation(form) };
  const made = await call('createToken', { input });
  if (made.kind === 'done') return view('tokens/made', 'New token', { token: made.body }, { status: 201, once: true });
  return tokenForm(person.role, given, formErrors(made, confirmationError()));
};

function tokenForm(role: Role, given: object, feedback: FormFeedback) {
  const offered = roles.filter((candidate) => allows(role, candidate));
  return formView('tokens/new', 'New token', { given, roles: offered, lifetimes }, feedback);
}

const showToken = action('showToken', ({ body: token }) => view('tokens/show', token.name, { token }));

const revokeToken = action('revokeToken', (_, { id }) => redirect(`/account/tokens/${id}`, 'token-revoked'));

const tokens: Page = async () => redirect('/account/tokens');

export const tokenPages = { tokens, tokenList, newToken, createToken, showToken, revokeToken };
