/** The pages of a process. */
import type { ClientPackage } from '../../../base/http/client-package.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import type { History } from '../../../manage/live/counters.ts';
import type { ProblemCode } from '../../../model/errors.ts';
import { accountPages, tokenPages } from '../../../pages/account/account.ts';
import { authorizePages } from '../../../pages/account/authorize.ts';
import { invitationPages, oidcPages, setupPages, signInPages } from '../../../pages/account/entrance.ts';
import { auditPages } from '../../../pages/administration/audit.ts';
import { statusPages } from '../../../pages/administration/status.ts';
import { userListPages, userPages } from '../../../pages/administration/users.ts';
import { agentPages } from '../../../pages/agents/agents.ts';
import { subscriptionPages } from '../../../pages/agents/subscriptions.ts';
import { deliveryPages } from '../../../pages/deliveries/deliveries.ts';
import { jobPages } from '../../../pages/deliveries/jobs.ts';
import { docsPages } from '../../../pages/docs.ts';
import { eventPages } from '../../../pages/events/events.ts';
import { latencyPages } from '../../../pages/events/latency.ts';
import { issuePages } from '../../../pages/overview/issues.ts';
import { createStart, overview, withStart } from '../../../pages/overview/overview.ts';
import { rejectionPages } from '../../../pages/rejections/rejections.ts';
import { searchPages } from '../../../pages/search.ts';
import { Assets } from '../../../pages/serve/assets.ts';
import { framePages } from '../../../pages/serve/frame.ts';
import { Notices } from '../../../pages/serve/notices.ts';
import { Pages } from '../../../pages/serve/serve.ts';
import { webhookTestPages } from '../../../pages/webhooks/send-test.ts';
import { webhookPages } from '../../../pages/webhooks/webhooks.ts';
import { readNames, readNewestNames } from '../../../store/queries/names.ts';
import { countAdministrators } from '../../../store/queries/users/users.ts';
import { derivedKeys } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';
import type { PageTable } from '../routes.ts';
import type { ComposedPeople } from './people.ts';

/**
 * Builds the pages. `judge` evaluates the filters of pages; claims have their own. `history` has the last minutes, for outages and the status.
 * `countIssues` returns the number of open issues.
 * @param build folder of the build
 */
export function composePages(
  { settings, keys, database, limiter, judge }: Base & { judge: FilterJudge },
  { people, csrf, runner, overOpenLimit, anonymous, oidc, oauth, confirm }: ComposedPeople,
  { history, countIssues }: { history: History; countIssues: () => Promise<number> },
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
    assets,
    client,
    notices: new Notices(derivedKeys(keys, 'notices')[0]!, Date.now),
    settings,
    history,
    countIssues,
  });
  async function whySetupIsClosed(): Promise<ProblemCode | null> {
    if (settings.AUTH_MODE === 'hosted') return 'local_mode_only';
    return (await countAdministrators(database)) > 0 ? 'setup_closed' : null;
  }
  const pageTable: PageTable = {
    ...signInPages({
      publicUrl,
      isSetUp: async () => (await whySetupIsClosed()) !== null,
      signOutAddress: oidc.signOutAddress,
    }),
    ...oidcPages(oidc.signIn && { signIn: oidc.signIn, limiter, publicUrl }),
    ...authorizePages(oauth, confirm),
    ...docsPages(build),
    ...setupPages(whySetupIsClosed),
    ...accountPages,
    ...framePages,
    ...userListPages(settings.AUTH_MODE === 'hosted'),
    ...invitationPages(database, settings.AUTH_MODE === 'hosted'),
    ...userPages,
    ...tokenPages,
    ...auditPages,
    overview: withStart(overview, createStart(database)),
    ...webhookPages,
    ...eventPages(database, judge, settings.FILTER_TIMEOUT_MS),
    ...webhookTestPages(database),
    ...searchPages(database),
    ...rejectionPages,
    ...agentPages,
    ...subscriptionPages,
    ...jobPages,
    ...latencyPages,
    ...issuePages,
    ...deliveryPages(database),
    ...statusPages(history),
  };
  return { handlers: { asset: assets.serve }, pages, pageTable };
}
