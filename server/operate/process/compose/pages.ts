/** The parts of a process that show pages. */

import type { ClientPackage } from '../../../base/http/client-package.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import type { Runner } from '../../../manage/api/run.ts';
import type { OverOpenLimit } from '../../../manage/api/serve.ts';
import type { AnonymousLimit } from '../../../manage/auth/anonymous.ts';
import type { Csrf } from '../../../manage/auth/csrf.ts';
import type { People } from '../../../manage/auth/people.ts';
import type { History } from '../../../manage/live/counters.ts';
import type { ProblemCode } from '../../../model/errors.ts';
import { accountPages } from '../../../pages/account.ts';
import { agentFilterPages } from '../../../pages/agent-filters.ts';
import { agentPages } from '../../../pages/agents.ts';
import { Assets } from '../../../pages/assets.ts';
import { auditPages } from '../../../pages/audit.ts';
import { conditionPages } from '../../../pages/conditions.ts';
import { deadCounter } from '../../../pages/dead-count.ts';
import { deliveryPages } from '../../../pages/deliveries.ts';
import { docsPages } from '../../../pages/docs.ts';
import { eventPages } from '../../../pages/events.ts';
import { framePages } from '../../../pages/frame.ts';
import { invitationPages } from '../../../pages/invitation.ts';
import { jobPages } from '../../../pages/jobs.ts';
import { latencyPages } from '../../../pages/latency.ts';
import { Notices } from '../../../pages/notices.ts';
import { oidcPages } from '../../../pages/oidc.ts';
import { overview } from '../../../pages/overview.ts';
import { rejectionPages } from '../../../pages/rejections.ts';
import { Renderer } from '../../../pages/render.ts';
import { searchPages } from '../../../pages/search.ts';
import { Pages } from '../../../pages/serve.ts';
import { setupPages } from '../../../pages/setup.ts';
import { signInPages } from '../../../pages/sign-in.ts';
import { createStart, startPages, withStart } from '../../../pages/start.ts';
import { statusPages } from '../../../pages/status.ts';
import { tokenPages } from '../../../pages/tokens.ts';
import { userPages } from '../../../pages/user.ts';
import { userListPages } from '../../../pages/users.ts';
import { webhookTestPages } from '../../../pages/webhook-test.ts';
import { webhookPages } from '../../../pages/webhooks.ts';
import { readNames, readNewestNames } from '../../../store/queries/names.ts';
import { countAdministrators } from '../../../store/queries/users.ts';
import { derivedKeys } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';
import type { PageTable } from '../routes.ts';
import type { Oidc } from './oidc.ts';

interface PeopleParts {
  people: People;
  csrf: Csrf;
  runner: Runner;
  overOpenLimit: OverOpenLimit;
  anonymous: AnonymousLimit;
  oidc: Oidc;
}

/**
 * @param base its judge of filters is not the one of claims.
 * @param history the last minutes, for the overview, outages and the counts in the navigation.
 * @param build folder of the build
 */
export function composePages(
  { settings, keys, database, limiter, judge }: Base & { judge: FilterJudge },
  { people, csrf, runner, overOpenLimit, anonymous, oidc }: PeopleParts,
  history: History,
  client: ClientPackage,
  build: string,
) {
  const publicUrl = settings.PUBLIC_URL;
  const assets = new Assets();
  const pages = new Pages({
    people,
    csrf,
    runner,
    names: {
      of: (table, ids) => readNames(database, table, ids),
      newest: (table, which) => readNewestNames(database, table, which),
    },
    overOpenLimit,
    anonymous,
    signIn: oidc.signIn,
    renderer: new Renderer(),
    assets,
    client,
    notices: new Notices(derivedKeys(keys, 'notices')[0]!, Date.now),
    settings,
    history,
    countDead: deadCounter(database),
  });
  async function whySetupIsClosed(): Promise<ProblemCode | null> {
    if (settings.AUTH_MODE === 'hosted') return 'local_mode_only';
    return (await countAdministrators(database)) > 0 ? 'setup_closed' : null;
  }
  const start = createStart(database);
  const pageTable: PageTable = {
    ...signInPages({
      publicUrl,
      isSetUp: async () => (await whySetupIsClosed()) !== null,
      signOutAddress: oidc.signOutAddress,
    }),
    ...oidcPages(oidc.signIn && { signIn: oidc.signIn, limiter, publicUrl }),
    ...docsPages(build),
    ...setupPages({ whyClosed: whySetupIsClosed }),
    ...accountPages,
    ...framePages,
    ...userListPages(settings.AUTH_MODE === 'hosted'),
    ...invitationPages(database, settings.AUTH_MODE === 'hosted'),
    ...userPages,
    ...tokenPages,
    ...auditPages,
    overview: withStart(overview, start),
    ...startPages(start),
    ...webhookPages,
    ...eventPages(database, judge, settings.FILTER_TIMEOUT_MS),
    ...webhookTestPages(database),
    ...searchPages(database),
    ...rejectionPages,
    ...agentPages,
    ...agentFilterPages,
    ...jobPages,
    ...latencyPages,
    ...conditionPages,
    ...deliveryPages(database),
    ...statusPages(history),
  };
  return { handlers: { asset: assets.serve }, pages, pageTable };
}
