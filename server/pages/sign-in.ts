/** /sign-in and /sign-out. */
import type { Person } from '../auth/person.ts';
import { formErrors, noErrors, type Told } from './form-errors.ts';
import { asProblem, type Page, redirect, view } from './page.ts';

const signIn: Page<Person | null> = async ({ person, query }) => {
  const returnTo = ownPath(query.get('return_to'));
  return person === null ? signInForm(returnTo, '', noErrors) : redirect(returnTo);
};

const doSignIn: Page<Person | null> = async ({ form, call }) => {
  const returnTo = ownPath(form.get('return_to'));
  const email = form.get('email') ?? '';
  const signedIn = await call('signIn', { input: { email, password: form.get('password') ?? '' } });
  if (signedIn.kind === 'done') return redirect(returnTo, undefined, signedIn.headers);
  return signInForm(returnTo, email, formErrors(signedIn));
};

function signInForm(returnTo: string, email: string, { errors, ...told }: Told) {
  return view('sign-in', 'Sign in', { returnTo, email, errors }, told);
}

const signOut: Page = async ({ call }) => {
  const signedOut = await call('signOut');
  if (signedOut.kind !== 'done') return asProblem(signedOut);
  return redirect('/sign-in', 'signed-out', signedOut.headers);
};

export const signInPages = { signIn, doSignIn, signOut };

/** A path of ours; what leads elsewhere, or to no page, leads to the overview. */
export function ownPath(given: string | null): string {
  return given !== null && /^\/(?![/\\])[^\s\\]*$/.test(given) ? given : '/';
}
