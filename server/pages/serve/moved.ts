/** Former addresses of pages, which bookmarks and messages still have. */
import { type Page, redirect } from '../page.ts';

const moved =
  (to: string): Page =>
  async ({ id, query }) => {
    const parameters = query.toString();
    return redirect(`${to}${id === '' ? '' : `/${id}`}${parameters === '' ? '' : `?${parameters}`}`);
  };

export const movedPages = {
  oldTokens: moved('/account/tokens'),
  oldToken: moved('/account/tokens'),
  oldJobs: moved('/events/replays'),
  oldJob: moved('/events/replays'),
  oldLatency: moved('/webhooks/latency'),
};
