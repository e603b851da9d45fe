/** Names to show beside ids, and to choose from. */
import type { Call } from './page.ts';

/** Names of the newest webhooks or agents by id, in the order of the names; what is not among them is shown by its id. */
export async function namesOf(call: Call, list: 'listWebhooks' | 'listAgents'): Promise<Record<string, string>> {
  const listed = await call(list, { query: { limit: '200' } });
  if (listed.kind !== 'done') return {};
  const named = listed.body.items.map(({ id, name }: { id: string; name: string }) => [id, name] as const);
  return Object.fromEntries(
    named.sort(([, one]: [string, string], [, other]: [string, string]) => one.localeCompare(other)),
  );
}
