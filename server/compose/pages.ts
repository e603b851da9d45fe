/** The parts of a process that show pages. */
import type { Csrf } from '../auth/csrf.ts';
import type { HostedSignIn } from '../auth/oidc/sign-in.ts';
import type { People } from '../auth/people.ts';
import { countAdministrators } from '../db/queries/users.ts';
import type { ProblemCode } from '../errors.ts';
import { accountPages } from '../pages/account.ts';
import { Assets } from '../pages/assets.ts';
import { auditPages } from '../pages/audit.ts';
import { deliveryList } from '../pages/deliveries.ts';
import { oidcPages } from '../pages/oidc.ts';
import { overview } from '../pages/overview.ts';
import { Renderer } from '../pages/render.ts';
import { Pages } from '../pages/serve.ts';
import { setupPages } from '../pages/setup.ts';
import { signInPages } from '../pages/sign-in.ts';
import { tokenPages } from '../pages/tokens.ts';
import { userPages } from '../pages/user.ts';
import { userListPages } from '../pages/users.ts';
import type { Operations, PageTable } from '../routes.ts';
import type { Base } from './base.ts';

interface PeopleParts {
  people: People;
  csrf: Csrf;
  operations: Operations;
  /** `signIn` is null where people sign in at Weir itself. */
  oidc: { signIn: HostedSignIn | null; signOutAddress: () => Promise<string | null> };
}

export function composePages({ settings, database, limiter }: Base, { people, csrf, operations, oidc }: PeopleParts) {
  const publicUrl = settings.PUBLIC_URL;
  const assets = new Assets();
  const pages = new Pages({ people, csrf, operations, renderer: new Renderer(), assets, settings });
  async function whySetupIsClosed(): Promise<ProblemCode | null> {
    if (settings.AUTH_MODE === 'hosted') return 'local_mode_only';
    return (await countAdministrators(database)) > 0 ? 'setup_closed' : null;
  }
  const pageTable: PageTable = {
    ...signInPages({ publicUrl, signOutAddress: oidc.signOutAddress }),
    ...oidcPages(oidc.signIn && { signIn: oidc.signIn, limiter, publicUrl }),
    ...setupPages({ whyClosed: whySetupIsClosed }),
    ...accountPages,
    ...userListPages,
    ...userPages,
    overview,
    deliveryList,
    ...tokenPages,
    ...auditPages,
  };
  return { handlers: { asset: assets.serve }, pages, pageTable };
}
