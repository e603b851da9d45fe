/** /sign-in and /sign-out. */
import type { Person } from '../../manage/auth/person.ts';
import { returnAddress } from '../../manage/auth/sign-in.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { asProblem, type Page, redirect, view } from '../page.ts';

interface SignInPageParts {
  publicUrl: string;
  /** False while no administrator exists, so that no user can sign in. */
  isSetUp: () => Promise<boolean>;
  /** The sign-out URL of the identity provider; null when it has none. */
  signOutAddress: () => Promise<string | null>;
}

export function signInPages({ publicUrl, isSetUp, signOutAddress }: SignInPageParts) {
  const signIn: Page<Person | null> = async ({ person, query }) => {
    const returnTo = query.get('return_to') ?? '/';
    if (person !== null) return redirect(returnAddress(returnTo, publicUrl));
    // A link instead of a redirect: the Content-Security-Policy forbids forms from leading to another origin.
    const providerSignOut = query.has('notice') ? await signOutAddress() : null;
    return signInForm({ returnTo, email: '', providerSignOut, isSetUp: await isSetUp() }, noErrors);
  };

  const doSignIn: Page<Person | null> = async ({ form, call }) => {
    const returnTo = form.get('return_to') ?? '/';
    const email = form.get('email') ?? '';
    const signedIn = await call('signIn', { input: { email, password: form.get('password') ?? '' } });
    if (signedIn.kind === 'done') return redirect(returnAddress(returnTo, publicUrl), undefined, signedIn.headers);
    return signInForm({ returnTo, email, providerSignOut: null, isSetUp: true }, formErrors(signedIn));
  };

  const signOut: Page = async ({ call }) => {
    const signedOut = await call('signOut');
    if (signedOut.kind !== 'done') return asProblem(signedOut);
    return redirect('/sign-in', 'signed-out', signedOut.headers);
  };

  return { signIn, doSignIn, signOut };
}

function signInForm(
  shown: { returnTo: string; email: string; providerSignOut: string | null; isSetUp: boolean },
  { errors, ...feedback }: FormFeedback,
) {
  return view('sign-in', 'Sign in', { ...shown, errors }, feedback);
}
