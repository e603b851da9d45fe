/** Names to show beside ids, and to choose from. */
import type { Call } from './page.ts';

const shows = { listWebhooks: 'showWebhook', listAgents: 'showAgent' } as const;

type Named = readonly [id: string, name: string];

/**
 * Names by id, in the order of the names: of the newest 200 webhooks or agents, and of those with these ids, however old. What is
 * gone has none, and is shown by its id.
 */
export async function namesOf(
  call: Call,
  list: keyof typeof shows,
  ids: readonly string[] = [],
): Promise<Record<string, string>> {
  const listed = await call(list, { query: { limit: '200' } });
  if (listed.kind !== 'done') return {};
  const named: Named[] = listed.body.items.map(nameOf);
  const known = new Set(named.map(([id]) => id));
  const others = [...new Set(ids)].filter((id) => !known.has(id));
  const found = await Promise.all(others.map((id) => call(shows[list], { id })));
  for (const one of found) if (one.kind === 'done') named.push(nameOf(one.body));
  return Object.fromEntries(named.sort(([, one], [, other]) => one.localeCompare(other)));
}

function nameOf({ id, name }: { id: string; name: string }): Named {
  return [id, name];
}
