/** /search: one field that finds things by a name, a type, an id or its beginning, an address, or a text. */

import { parseNetwork } from '../model/address.ts';
import { recordId } from '../model/fields.ts';
import { PartialReads } from '../store/cells/cells-database.ts';
import type { Database } from '../store/connect/pool.ts';
import { eventsByIdStart, ID_DIGITS_MIN } from '../store/queries/events/lists.ts';
import { namesOf } from './names.ts';
import { type Call, itemsOf, type Page, redirect, view } from './page.ts';

const SOUGHT_CHARACTERS_MAX = 200;
/** Results of each kind. More are found in the list of that kind, which has the same filter. */
const SHOWN_MAX = 5;
/** Age of events up to which their bodies and addresses are searched. */
const BODIES_MS = 3_600_000;
/** Time limit of each search; the list of events continues it. */
const SEARCH_MS_MAX = 40;

/** @param database finds events by the beginning of an id, which has no operation */
export function searchPages(database: Database) {
  const search: Page = async ({ call, query }) => {
    const sought = (query.get('q') ?? '').trim().slice(0, SOUGHT_CHARACTERS_MAX);
    if (recordId.safeParse(sought).success) {
      const path = await pathOfId(call, sought.toLowerCase());
      if (path !== null) return redirect(path);
    }
    return view('search', 'Search', { sought, ...(sought === '' ? nothing : await found(call, sought)) });
  };

  async function found(call: Call, sought: string) {
    const limit = String(SHOWN_MAX);
    const digits = sought.toLowerCase().replaceAll('-', '');
    const isIdStart = /^[0-9a-f]+$/.test(digits) && digits.length >= ID_DIGITS_MIN && digits.length < 32;
    const from = new Date(Date.now() - BODIES_MS).toISOString();
    const reads = new PartialReads(database);
    const isAddress = parseNetwork(sought) !== null;
    const eventsBy = async (query: Record<string, string>) => {
      const listed = await call('listEvents', { query: { ...query, limit }, withinMs: SEARCH_MS_MAX });
      return listed.kind === 'done' ? listed.body : null;
    };
    const [webhooks, agents, typed, byId, inBodies, bySource] = await Promise.all([
      call('listWebhooks', { query: { q: sought, limit } }),
      call('listAgents', { query: { q: sought, limit } }),
      eventsBy({ type: sought }),
      isIdStart ? eventsByIdStart(reads, digits, SHOWN_MAX) : [],
      eventsBy({ q: sought, from }),
      isAddress ? eventsBy({ source: sought, from }) : none,
    ]);
    const events = typed?.items ?? [];
    const bodies = inBodies?.items ?? [];
    const sources = bySource?.items ?? [];
    const named = itemsOf(webhooks).items;
    const ids = [...events, ...byId, ...bodies, ...sources].map(({ webhook_id }) => webhook_id);
    return {
      webhooks: named,
      agents: itemsOf(agents).items,
      events,
      complete: [typed, inBodies, bySource].every((list) => list?.complete || (list?.items.length ?? 0) > 0),
      byId,
      bodies,
      sources,
      cellsAway: typed?.cells_away || inBodies?.cells_away || reads.cellsAway,
      names: await namesOf(call, 'webhooks', [...named.map(({ id }) => id), ...ids]),
    };
  }

  return { search };
}

const none = { items: [], complete: true };
const nothing = { webhooks: [], agents: [], events: [], complete: true, byId: [], bodies: [], sources: [], names: {} };

const pagesOfIds = [
  ['showEvent', 'events'],
  ['showDelivery', 'deliveries'],
  ['showRejection', 'rejections'],
  ['showWebhook', 'webhooks'],
  ['showAgent', 'agents'],
  ['showJob', 'events/replays'],
] as const;

/** The page of the resource with this id; null when the id is unknown. */
async function pathOfId(call: Call, id: string): Promise<string | null> {
  for (const [operation, folder] of pagesOfIds)
    if ((await call(operation, { id })).kind === 'done') return `/${folder}/${id}`;
  return null;
}
