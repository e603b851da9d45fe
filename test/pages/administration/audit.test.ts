import { beforeAll, describe, expect, test } from 'vitest';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, PASSWORD, signIn } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startPagesApp);
const administrator = shared(() => addPerson(app, 'administrator', PASSWORD));
let webhook: string;
beforeAll(async () => {
  const { api, email } = administrator;
  webhook = (await api('POST', '/api/v1/webhooks', { name: 'Orders', generate_secret: true })).body.id;
  await api('PATCH', `/api/v1/webhooks/${webhook}`, { enabled: false });
  await api('POST', `/api/v1/webhooks/${webhook}/rotate-secret`, { overlap_seconds: 0 });
  await signIn(app, email, PASSWORD);
});

const get = async (path: string) => (await administrator.browse('GET', path)).text;

/** The column What was done, as text. */
async function done(path: string): Promise<string[]> {
  const rows = [...(await get(path)).matchAll(/<td class="wrap" title="[\w.]+">([\s\S]*?)<\/td>/g)];
  return rows.map(([, cell]) =>
    cell!
      .replace(/<[^>]+>/g, '')
      .replace(/\s+/g, ' ')
      .trim(),
  );
}

test('a row says in words who did what, and sign-ins are apart', async () => {
  const who = `token ${administrator.email}`;
  expect(await done('/audit')).toEqual([
    `${who} rotated the secret of webhook Orders`,
    `${who} changed webhook Orders`,
    `${who} created webhook Orders`,
  ]);
  expect(await done('/audit?action=session.')).toEqual([`${administrator.email} signed in`]);
  expect(await done('/audit?action=user.')).toEqual([]);
});

test('an entry has no rows without a value, and times as on other pages', async () => {
  const page = await get('/audit/1');
  expect(page).not.toMatch(/<td class="wrap" data-label="After">(<ins>)?–/);
  expect(page).toMatch(/<ins>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC<\/ins>/);
});

describe('the list', () => {
  const rows = (page: string) => page.match(/<td class="num"/g)?.length ?? 0;
  beforeAll(async () => {
    for (let each = 0; each < 51; each++)
      await administrator.api('POST', '/api/v1/tokens', { name: `token ${each}`, role: 'viewer' });
  });

  test('is paged and keeps its filters, whose times are in UTC', async () => {
    const path = `/audit?actor_id=${administrator.id}`;
    const first = await get(path);
    expect(rows(first)).toBe(50);
    const [, older] = /href="([^"]+)" rel="next"/.exec(first)!;
    expect(older).toMatch(new RegExp(`^/audit\\?actor_id=${administrator.id}&amp;cursor=`));
    expect(rows(await get(older!.replaceAll('&amp;', '&')))).toBeGreaterThan(0);
    const [soon, before] = [60_000, -3_600_000].map((ms) => new Date(Date.now() + ms).toISOString().slice(0, 16));
    expect([rows(await get(`/audit?from=${before}`)), rows(await get(`/audit?from=${soon}`))]).toEqual([50, 0]);
    expect(rows(await get(`/audit?to=${before}`))).toBe(0);
    expect(await get('/audit?actor_id=somebody')).toMatch(/id="e-actor_id">Give an id/);
  });

  test('is found by a user who was deleted', async () => {
    const gone = await addPerson(app, 'viewer');
    await gone.api('POST', '/api/v1/tokens', { name: 'of somebody who leaves' });
    await administrator.api('DELETE', `/api/v1/users/${gone.id}`);
    expect(await get(`/audit?actor_id=${gone.id}`)).toMatch(new RegExp(`selected>[^<]*${gone.email}</option>`));
  });

  test.each(['0', '01', '999', '999999999999999', 'x', '1e1'])('has no entry %s', async (number) => {
    expect((await administrator.browse('GET', `/audit/${number}`)).status).toBe(404);
  });
});

test('verification says how many entries are valid, checks a given head, and finds an entry that was changed', async () => {
  const verify = (head = '') => get(`/audit/verify${head && `?head=${head}`}`);
  const [newest] = (await administrator.api('GET', '/api/v1/audit?limit=1')).body.items;
  expect(await verify()).toContain(newest.hash);
  expect(await verify(newest.hash)).toContain('and the chain contains the given head');
  expect(await verify('0'.repeat(64))).toContain('The chain does not contain the given head');
  expect(await verify('none')).toContain('Give a hash of 64 hex digits.');
  await app.sql('alter table audit_log disable trigger audit_log_append_only');
  await app.sql(`update audit_log set entry = replace(entry::text, 'token 5', 'token 6')::json where number = 10`);
  expect(await verify()).toContain('9 entries are valid; see <a href="/audit/10">');
});
