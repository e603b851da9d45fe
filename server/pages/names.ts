/** Names of webhooks and agents: shown instead of ids, offered as choices, and accepted in place of an id. */

import { recordOf } from '../base/http/record.ts';
import { recordId } from '../model/fields.ts';
import type { Call, Called, Invalid } from './call.ts';
import { plural } from './show.ts';

const showOperations = { listWebhooks: 'showWebhook', listAgents: 'showAgent' } as const;
const words = { listWebhooks: 'webhook', listAgents: 'agent' } as const;
type List = keyof typeof showOperations;

/** Maximum page size of a list. */
const LISTED_MAX = 200;
/** Maximum number of names in the message for an ambiguous name. */
const SHOWN_MAX = 5;

type Named = { id: string; name: string };

/** Webhooks or agents to choose from. */
interface Choices {
  /** Names by id, sorted by name; also used to look up typed names. */
  names: Record<string, string>;
  /** False when there are more; those are chosen by typing a name or an id. */
  complete: boolean;
}

/**
 * Returns the newest webhooks or agents, and those with these ids, whatever their age. A deleted webhook or agent has no name and is
 * shown by its id.
 * @param only filters of the list.
 */
export async function choicesOf(
  call: Call,
  list: List,
  ids: readonly (string | undefined)[] = [],
  only: Record<string, string> = {},
): Promise<Choices> {
  const listed = await call(list, { query: { ...only, limit: String(LISTED_MAX) } });
  if (listed.kind !== 'done') return { names: recordOf(), complete: true };
  const named: Named[] = [...listed.body.items];
  const known = new Set(named.map(({ id }) => id));
  const others = [...new Set(ids)].filter((id) => id !== undefined && !known.has(id) && isId(id)) as string[];
  const found = await Promise.all(others.map((id) => call(showOperations[list], { id })));
  for (const one of found) if (one.kind === 'done') named.push(one.body);
  named.sort((one, other) => one.name.localeCompare(other.name));
  return {
    names: recordOf(named.map(({ id, name }) => [id, name])),
    complete: listed.body.next_cursor === null,
  };
}

/**
 * Returns those whose name has this text, and those with these ids; `found` says how many have it.
 * @param ids stay in the list: they are checked.
 */
export async function searchedChoices(
  call: Call,
  list: List,
  text: string,
  ids: readonly string[],
): Promise<Choices & { found: string }> {
  const [found, kept] = await Promise.all([choicesOf(call, list, [], { q: text }), choicesOf(call, list, ids)]);
  const matches = Object.entries(found.names);
  const checked = Object.entries(kept.names).filter(([id]) => ids.includes(id) && found.names[id] === undefined);
  const count = found.complete
    ? plural(matches.length, words[list])
    : `More than ${plural(matches.length, words[list])}`;
  return {
    names: recordOf([...checked, ...matches]),
    // Not all are in the list, so the field to find others stays.
    complete: false,
    found: `${count} ${found.complete && matches.length === 1 ? 'has' : 'have'} “${text}” in the name.`,
  };
}

/** Like choicesOf, but returns only the names. */
export async function namesOf(
  call: Call,
  list: List,
  ids: readonly (string | undefined)[] = [],
): Promise<Record<string, string>> {
  return (await choicesOf(call, list, ids)).names;
}

/**
 * Resolves ids, names and parts of names to ids of webhooks or agents. Returns an error message when a name has no match or several
 * matches.
 */
export async function idsOf(
  call: Call,
  list: List,
  given: readonly string[],
): Promise<{ ids: string[] } | { error: string }> {
  const ids: string[] = [];
  for (const one of given) {
    const found = isId(one) ? one : await idOf(call, list, one.trim());
    if (typeof found !== 'string') return found;
    ids.push(found);
  }
  return { ids };
}

/** Resolves names in `field` to ids, then makes the change. */
export async function withIds<Field extends string, Input extends Record<Field, string[]>, Outcome>(
  call: Call,
  list: List,
  field: Field,
  input: Input,
  change: (input: Input) => Promise<Outcome>,
): Promise<Outcome | Invalid> {
  const found = await idsOf(call, list, input[field]);
  return 'error' in found
    ? { kind: 'invalid', errors: { [field]: found.error } }
    : change({ ...input, [field]: found.ids });
}

/** Calls a list operation whose filters `webhook_id` and `agent_id` may be names. Returns the filters with ids. */
export async function listBy<
  Name extends 'listEvents' | 'listDeliveries' | 'listRejections',
  Filters extends { webhook_id?: string; agent_id?: string },
>(call: Call, operation: Name, given: Filters): Promise<{ filters: Filters; listed: Called<Name> }> {
  const filters = { ...given };
  for (const [field, list] of [
    ['webhook_id', 'listWebhooks'],
    ['agent_id', 'listAgents'],
  ] as const) {
    if (filters[field] === undefined) continue;
    const found = await idsOf(call, list, [filters[field]]);
    if ('error' in found) return { filters, listed: { kind: 'invalid', errors: { [field]: found.error } } };
    filters[field] = found.ids[0]!;
  }
  return { filters, listed: await call(operation, { query: filters }) };
}

async function idOf(call: Call, list: List, name: string): Promise<string | { error: string }> {
  const listed = await call(list, { query: { q: name, limit: String(LISTED_MAX) } });
  if (listed.kind !== 'done') return { error: `Give the name or the id of ${indefinite(list)}.` };
  const similar: readonly Named[] = listed.body.items;
  const same = similar.filter((one) => one.name.toLowerCase() === name.toLowerCase());
  const matches = same.length > 0 ? same : similar;
  if (matches.length === 1) return matches[0]!.id;
  if (matches.length === 0) return { error: `No ${words[list]} has “${name}” in its name.` };
  const shown = matches.slice(0, SHOWN_MAX).map((one) => one.name);
  const more = matches.length > SHOWN_MAX ? ' and more' : '';
  const which = same.length > 0 ? 'Give the id of one.' : `Type more of the name: ${shown.join(', ')}${more}.`;
  const count = listed.body.next_cursor === null ? plural(matches.length, words[list]) : `Many ${words[list]}s`;
  return { error: `${count} have “${name}” in their name. ${which}` };
}

function indefinite(list: List): string {
  return list === 'listAgents' ? 'an agent' : 'a webhook';
}

export function isId(text: string): boolean {
  return recordId.safeParse(text).success;
}
