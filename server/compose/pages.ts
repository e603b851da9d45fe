/** The parts of a process that show pages. */
import type { Csrf } from '../auth/csrf.ts';
import type { People } from '../auth/people.ts';
import { Assets } from '../pages/assets.ts';
import { auditPages } from '../pages/audit.ts';
import { deliveryList } from '../pages/deliveries.ts';
import { overview } from '../pages/overview.ts';
import { Renderer } from '../pages/render.ts';
import { Pages } from '../pages/serve.ts';
import { signInPages } from '../pages/sign-in.ts';
import { tokenPages } from '../pages/tokens.ts';
import type { Operations, PageTable } from '../routes.ts';
import type { Base } from './base.ts';

export function composePages(
  { settings }: Base,
  { people, csrf, operations }: { people: People; csrf: Csrf; operations: Operations },
) {
  const assets = new Assets();
  const pages = new Pages({ people, csrf, operations, renderer: new Renderer(), assets, settings });
  const pageTable: PageTable = {
    ...signInPages,
    overview,
    deliveryList,
    ...tokenPages,
    ...auditPages,
  };
  return { handlers: { asset: assets.serve }, pages, pageTable };
}
