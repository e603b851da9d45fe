/** /account: the signed-in user, the password form and the user's sessions. */
import { type FormFeedback, fieldError, formErrors, noErrors } from '../forms/errors.ts';
import { asProblem, type Page, type PageReply, type PageRequest, redirect, view } from '../page.ts';

const account: Page = (request) => accountPage(request, noErrors);

const changePassword: Page = async (request) => {
  const field = (name: string) => request.form.get(name) ?? '';
  const revokeTokens = request.form.has('revoke_tokens');
  if (field('new_password') !== field('new_password_again'))
    return accountPage(request, fieldError('new_password_again', 'The passwords do not match.'), revokeTokens);
  const input = {
    current_password: field('current_password'),
    new_password: field('new_password'),
    revoke_tokens: revokeTokens,
  };
  const changed = await request.call('changePassword', { input });
  if (changed.kind !== 'done') return accountPage(request, formErrors(changed), revokeTokens);
  if (!revokeTokens) return redirect('/account', 'password-changed');
  return redirect(`/account?count=${changed.body.revoked_tokens}`, 'password-changed-tokens-revoked');
};

const endSession: Page = async ({ id, call }) => {
  const ended = await call('endSession', { id });
  if (ended.kind !== 'done') return asProblem(ended);
  // A removed cookie means that the user ended the current session.
  const isOwn = 'set-cookie' in ended.headers;
  return redirect(isOwn ? '/sign-in' : '/account', isOwn ? 'signed-out' : 'session-ended', ended.headers);
};

const signOutEverywhere: Page = async ({ call }) => {
  const ended = await call('endSessions');
  if (ended.kind !== 'done') return asProblem(ended);
  return redirect('/sign-in', 'signed-out-everywhere', ended.headers);
};

export const accountPages = { account, changePassword, endSession, signOutEverywhere };

/** @param revokeTokens the checkbox value of a refused form. */
async function accountPage(
  { call }: PageRequest,
  { errors, ...feedback }: FormFeedback,
  revokeTokens = true,
): Promise<PageReply> {
  const sessions = await call('listSessions');
  if (sessions.kind !== 'done') return asProblem(sessions);
  return view('account', 'Account', { sessions: sessions.body.items, browserName, errors, revokeTokens }, feedback);
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
