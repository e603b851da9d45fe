/** GET /status: settings and state of this installation, and the results of `weir doctor`. */
import { diagnosisText, processesText } from './diagnosis.ts';
import { asProblem, type Page, view } from './page.ts';

const status: Page = async ({ call }) => {
  const shown = await call('showStatus');
  if (shown.kind !== 'done') return asProblem(shown);
  const status = shown.body;
  return view('status', 'Status', { status, processes: processesText(status), diagnosis: diagnosisText(status) });
};

export const statusPages = { status };
