/** GET and POST /sign-in. */
import type { Person } from '../auth/person.ts';
import { type Page, redirect, view } from './page.ts';

const signIn: Page<Person | null> = async ({ person, query }) => {
  const returnTo = ownPath(query.get('return_to'));
  if (person !== null) return redirect(returnTo);
  return view('sign-in', 'Sign in', { returnTo, email: '', errors: {} });
};

const doSignIn: Page<Person | null> = async ({ form }) => {
  const returnTo = ownPath(form.get('return_to'));
  return view('sign-in', 'Sign in', { returnTo, email: form.get('email') ?? '', errors: {} });
};

export const signInPages = { signIn, doSignIn };

/** A path of ours; what leads elsewhere, or to no page, leads to the overview. */
export function ownPath(given: string | null): string {
  return given !== null && /^\/(?![/\\])[^\s\\]*$/.test(given) ? given : '/';
}
