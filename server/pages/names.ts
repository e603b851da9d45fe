/** Names of webhooks and agents: shown instead of ids, offered as choices, and accepted in place of an id. */

import { recordOf } from '../base/http/record.ts';
import { nameText, recordId } from '../model/fields.ts';
import type { Named, NamedTable } from '../store/queries/names.ts';
import type { Call, Called, Invalid } from './page.ts';
import { plural, shortId } from './show.ts';

const words = { webhooks: 'webhook', agents: 'agent' } as const;

const LISTED_MAX = 200;
/** Maximum number of names in the message for an ambiguous name. */
const SHOWN_MAX = 5;

interface Choices {
  /** Names by id, sorted by name; also used to look up typed names. */
  names: Record<string, string>;
  /** False when there are more: they are chosen by typing a name or an id. */
  complete: boolean;
}

/**
 * Returns the newest webhooks or agents, and those with these ids, whatever their age. A deleted webhook or agent has no name and is
 * shown by its id.
 */
export async function choicesOf(
  call: Call,
  table: NamedTable,
  ids: readonly (string | undefined)[] = [],
  { active = false } = {},
): Promise<Choices> {
  const [newest, others] = await Promise.all([
    call.names.newest(table, { contains: null, active, limit: LISTED_MAX + 1 }),
    call.names.of(table, known(ids)),
  ]);
  const named = [...newest.slice(0, LISTED_MAX), ...others];
  named.sort((one, other) => one.name.localeCompare(other.name));
  return { names: byId(named), complete: newest.length <= LISTED_MAX };
}

/** The names by id, sorted by name. A deleted webhook or agent has no name. */
export async function namesOf(
  call: Call,
  table: NamedTable,
  ids: readonly (string | undefined)[],
): Promise<Record<string, string>> {
  const named = await call.names.of(table, known(ids));
  return byId(named.sort((one, other) => one.name.localeCompare(other.name)));
}

function known(ids: readonly (string | undefined)[]): string[] {
  return [...new Set(ids)].filter((id): id is string => id !== undefined && isId(id));
}

/** A name that several share is followed by the end of the id: `Shop …8f3a21bc`. */
function byId(named: readonly Named[]): Record<string, string> {
  const names = recordOf(named.map(({ id, name }) => [id, name]));
  const holders = new Map<string, number>();
  for (const name of Object.values(names)) holders.set(name, (holders.get(name) ?? 0) + 1);
  return recordOf(
    Object.entries(names).map(([id, name]) => [id, holders.get(name) === 1 ? name : `${name} ${shortId(id)}`]),
  );
}

/** A name that several share, as byId() writes it. */
const SHARED_NAME = /^(.+) …([0-9a-f]{8})$/;

/**
 * Resolves ids, names and parts of names to ids of webhooks or agents. Returns an error message when a name has no match or several
 * matches.
 */
export async function idsOf(
  call: Call,
  table: NamedTable,
  given: readonly string[],
): Promise<{ ids: string[] } | { error: string }> {
  const ids: string[] = [];
  for (const one of given) {
    const found = isId(one) ? one : await idOf(call, table, one.trim());
    if (typeof found !== 'string') return found;
    ids.push(found);
  }
  return { ids };
}

/** Resolves names in `field`, if it is given, to ids, then makes the change. */
export async function withIds<Field extends string, Input extends { [name in Field]?: string[] | undefined }, Outcome>(
  call: Call,
  table: NamedTable,
  field: Field,
  input: Input,
  change: (input: Input) => Promise<Outcome>,
): Promise<Outcome | Invalid> {
  const given = input[field];
  if (given === undefined) return change(input);
  const found = await idsOf(call, table, given);
  return 'error' in found
    ? { kind: 'invalid', errors: { [field]: found.error } }
    : change({ ...input, [field]: found.ids });
}

/**
 * Calls a list operation whose filters `webhook_id` and `agent_id` may be names. Returns the filters with ids.
 * @param more of the call: the number of rows, and the time of a search
 */
export async function listBy<
  Name extends 'listEvents' | 'listDeliveries' | 'listRejections',
  Filters extends { webhook_id?: string; agent_id?: string },
>(
  call: Call,
  operation: Name,
  given: Filters,
  { limit, withinMs }: { limit?: string | undefined; withinMs?: number } = {},
): Promise<{ filters: Filters; listed: Called<Name> }> {
  const filters = { ...given };
  for (const [field, table] of [
    ['webhook_id', 'webhooks'],
    ['agent_id', 'agents'],
  ] as const) {
    if (filters[field] === undefined) continue;
    const found = await idsOf(call, table, [filters[field]]);
    if ('error' in found) return { filters, listed: { kind: 'invalid', errors: { [field]: found.error } } };
    filters[field] = found.ids[0]!;
  }
  return { filters, listed: await call(operation, { query: { ...filters, limit }, withinMs }) };
}

async function idOf(call: Call, table: NamedTable, typed: string): Promise<string | { error: string }> {
  const [, name = typed, idEnd = ''] = SHARED_NAME.exec(typed) ?? [];
  const sought = nameText.safeParse(name);
  if (!sought.success) return { error: `Give the name or the id of ${table === 'agents' ? 'an agent' : 'a webhook'}.` };
  const listed = await call.names.newest(table, { contains: sought.data, active: false, limit: LISTED_MAX + 1 });
  const similar = listed.slice(0, LISTED_MAX).filter(({ id }) => id.endsWith(idEnd));
  const same = similar.filter((one) => one.name.toLowerCase() === name.toLowerCase());
  const matches = same.length > 0 ? same : similar;
  if (matches.length === 1) return matches[0]!.id;
  if (matches.length === 0) return { error: `No ${words[table]} has “${typed}” in its name.` };
  const shown = Object.values(byId(matches)).slice(0, SHOWN_MAX).join(', ');
  const more = matches.length > SHOWN_MAX ? ' and more' : '';
  const which = `Type ${same.length > 0 ? 'one of these' : 'more of the name'}: ${shown}${more}.`;
  const count = listed.length <= LISTED_MAX ? plural(matches.length, words[table]) : `Many ${words[table]}s`;
  return { error: `${count} have “${name}” in their name. ${which}` };
}

/** Whether the text is an id of a configured resource, such as a webhook or an agent. */
export function isId(text: string): boolean {
  return recordId.safeParse(text).success;
}
