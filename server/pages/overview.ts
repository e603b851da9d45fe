/** GET /: what happens now. */
import { type Page, view } from './page.ts';

export const overview: Page = async () => view('overview', 'Overview', {});
