/** Alerts as pages list them. */
import type { z } from 'zod';
import type { alertSchema } from '../../model/alerts.ts';
import type { Role } from '../../model/users.ts';
import type { Call } from '../call.ts';
import { partOf } from '../page.ts';

export type ShownAlert = z.output<typeof alertSchema> & {
  /** A page of Weir, whatever PUBLIC_URL is. */
  href: string;
  /** The lowest role that can open it. */
  role: Role;
};

/** Reads the newest active alerts, then the newest that have ended. Null when they could not be read. */
export async function alertsOf(call: Call, activeMax: number, endedMax: number): Promise<ShownAlert[] | null> {
  const [active, ended] = await Promise.all([
    partOf(call('listAlerts', { query: { active: 'true', limit: String(activeMax) } })),
    partOf(call('listAlerts', { query: { active: 'false', limit: String(endedMax) } })),
  ]);
  if (active === null || ended === null) return null;
  return [...active.items, ...ended.items].map((alert) => ({ ...alert, ...ownPage(alert.url) }));
}

/** The link to a page of Weir, and the lowest role that can open it. @param url with PUBLIC_URL. */
export function ownPage(url: string): { href: string; role: Role } {
  const { pathname, search, hash } = new URL(url);
  return { href: `${pathname}${search}${hash}`, role: pathname === '/status' ? 'operator' : 'viewer' };
}
