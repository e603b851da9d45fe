import { describe, expect, test } from 'vitest';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);

async function post({ url }: TestWebhook, body: string, headers: Record<string, string> = {}, path = '') {
  const response = await fetch(url + path, { method: 'POST', body, headers });
  return response.status;
}

/** Types of the events of a webhook, oldest first. */
async function typesOf({ id }: TestWebhook): Promise<(string | null)[]> {
  const rows = await app.sql<{ event_type: string | null }>(
    'select event_type from events where webhook_id = $1 order by received_at, id',
    id,
  );
  return rows.map(({ event_type }) => event_type);
}

const open = { secret: null } as const;

describe('an event stores its type', () => {
  test('from a header and a member, of each request', async () => {
    const to = await app.addWebhook({ ...open, event_type_from: 'header:x-event+json:/action' });
    for (const [event, body] of [
      ['issues', '{"action":"opened"}'],
      ['push', '{"ref":"main"}'],
      ['ping', 'not JSON'],
    ] as const)
      expect(await post(to, body, { 'X-Event': event })).toBe(202);
    expect(await post(to, '{"action":"alone"}')).toBe(202);
    expect(await post(to, '{')).toBe(202);
    // Two requests of one millisecond have no order.
    expect((await typesOf(to)).toSorted()).toEqual(['alone', 'issues.opened', null, 'ping', 'push']);
  });

  test('from each line of a batch', async () => {
    const to = await app.addWebhook({ ...open, event_type_from: 'json:/type' });
    expect(await post(to, '{"type":"a"}\n{"type":"b"}\n{}\n"type"', {}, '/batch')).toBe(202);
    expect(await typesOf(to)).toEqual(['a', 'b', null, null]);
  });

  test('with a deduplication key', async () => {
    const to = await app.addWebhook({ ...open, dedupe_header: 'x-once', event_type_from: 'json:/type' });
    const body = '{"type":"gr\\u00f6\\u00dfer, \\"{}\\" \\\\ é"}';
    expect(await post(to, body, { 'x-once': '1' })).toBe(202);
    expect(await post(to, '{"a":1}', { 'x-once': '2' })).toBe(202);
    expect(await typesOf(to)).toEqual(['größer, "{}" \\ é', null]);
  });

  test('as its signature scheme says, until the webhook says otherwise', async () => {
    const to = await app.addWebhook({ signature_scheme: 'token', signature_header: 'x-secret', secret: 'a secret' });
    const send = () => post(to, '{"type":"a"}', { 'x-secret': 'a secret', 'x-kind': 'b' });
    expect(await send()).toBe(202);
    for (const event_type_from of ['json:/type', 'header:x-kind', 'none', null]) {
      await app.webhooks.update(to.id, { event_type_from });
      expect(await send()).toBe(202);
    }
    expect(await typesOf(to)).toEqual([null, 'a', 'b', null, null]);
  });
});
