/** Reads pages of lists, and finds the id of what a command names. */
import { CommandError } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import type { BodyOf } from '../../manage/api/operations.ts';
import type { OperationName } from '../../manage/api/routes.ts';
import type { CellAway } from '../../model/cells.ts';
import { isUuid } from '../../store/ids.ts';
import { type Call, type CallArguments, notFound, ProblemFailure } from './call.ts';

interface Page {
  items: unknown[];
  next_cursor: string | null;
  cells_away?: CellAway[] | undefined;
}

type PagedName = { [Name in OperationName]: BodyOf<Name> extends Page ? Name : never }[OperationName];

/** Largest page of the API. */
const PAGE_ITEMS_MAX = 200;

/**
 * Reads a list of up to `limit` items, newest first, in as many pages as that takes. Returns it as one page, whose next_cursor is that
 * of the last page, and whose cells_away are those of all pages.
 * @param onPage called after each page that is followed by another
 */
export async function readList<Name extends PagedName>(
  call: Call,
  name: Name,
  query: CallArguments['query'] = {},
  limit = Number.POSITIVE_INFINITY,
  onPage: (page: BodyOf<Name>, items: number) => void = () => {},
): Promise<BodyOf<Name>> {
  const items: unknown[] = [];
  const away = new Map<number, CellAway>();
  for (let cursor: string | undefined; ; ) {
    const left = Math.min(limit - items.length, PAGE_ITEMS_MAX);
    const page = (await call(name, { query: { ...query, cursor, limit: left } })) as BodyOf<Name> & Page;
    items.push(...page.items);
    for (const cell of page.cells_away ?? []) away.set(cell.number, cell);
    if (page.next_cursor === null || items.length >= limit)
      return { ...page, items, ...(away.size === 0 ? {} : { cells_away: [...away.values()] }) };
    onPage(page, items.length);
    cursor = page.next_cursor;
  }
}

/** Calls about one agent, for lists of what it has. */
export function ofAgent(call: Call, id: string): Call {
  return (name, given) => call(name, { ...given, id });
}

export type Resource = keyof typeof resources;

const resources = {
  webhook: (call: Call, name: string) => named(readList(call, 'listWebhooks', { q: name }), name),
  /** Names are unique among active agents. */
  agent: (call: Call, name: string) => named(readList(call, 'listAgents', { q: name, revoked: false }), name),
  user: usersOf,
};

async function named(list: Promise<{ items: { id: string; name: string }[] }>, name: string) {
  return (await list).items.filter((one) => one.name === name);
}

/** The users with this email: none or one. */
export async function usersOf(call: Call, email: string) {
  const { items } = await readList(call, 'listUsers', { q: email });
  return items.filter((one) => one.email === email.toLowerCase());
}

/** How people name a resource, beside its id. */
export function keyOf(resource: Resource): 'name' | 'email' {
  return resource === 'user' ? 'email' : 'name';
}

/** Longest text that the lists search for. */
const NAME_CHARACTERS_MAX = 200;

/** The id of the resource that has this id, unique name or email. Throws ProblemFailure or CommandError. */
export async function idOf(call: Call, resource: Resource, given: string): Promise<string> {
  if (isUuid(given)) return given.toLowerCase();
  const fits = given !== '' && given.length <= NAME_CHARACTERS_MAX;
  const found = fits ? await resources[resource](call, given) : [];
  if (found.length > 1)
    throw new CommandError(
      `${found.length} ${resource}s have the name ${given}; give the id of one: ${found.map(({ id }) => visibleLine(id)).join(', ')}`,
      2,
    );
  if (found.length === 1) return found[0]!.id;
  const active = resource === 'agent' ? 'active agent' : resource;
  throw notFound(`${resource}_unknown`, `no ${active} has the id or ${keyOf(resource)} ${given}`);
}

/** Names are looked up for at most this number of webhooks and agents of a list. */
const NAMED_MAX = 50;

/** Names by id of the webhooks and agents that items of a list belong to, without deleted ones. */
export async function namesOf(call: Call, items: readonly object[]): Promise<ReadonlyMap<string, string>> {
  const ids = (member: 'webhook_id' | 'agent_id') =>
    [...new Set(items.map((item) => (item as Record<typeof member, string | undefined>)[member]))]
      .filter((id) => id !== undefined)
      .slice(0, NAMED_MAX);
  const nameOf = async (name: 'showWebhook' | 'showAgent', id: string) => {
    try {
      return [[id, (await call(name, { id })).name]] as const;
    } catch (error) {
      if (error instanceof ProblemFailure) return [];
      throw error;
    }
  };
  const found = await Promise.all([
    ...ids('webhook_id').map((id) => nameOf('showWebhook', id)),
    ...ids('agent_id').map((id) => nameOf('showAgent', id)),
  ]);
  return new Map(found.flat());
}

/** Finds the id for an option that may be absent. */
export async function idOfGiven(call: Call, resource: Resource, given: string | undefined) {
  return given === undefined ? undefined : idOf(call, resource, given);
}

/** Finds the ids for a repeated option. */
export async function idsOfGiven(call: Call, resource: Resource, given: readonly string[] | undefined) {
  return given === undefined ? undefined : Promise.all(given.map((one) => idOf(call, resource, one)));
}
