/** GET /status: how this installation is set up, how it does, and what `weir doctor` says of it. */
import { asProblem, type Page, view } from './page.ts';

const status: Page = async ({ call }) => {
  const shown = await call('showStatus');
  return shown.kind === 'done' ? view('status', 'Status', { status: shown.body }) : asProblem(shown);
};

export const statusPages = { status };
