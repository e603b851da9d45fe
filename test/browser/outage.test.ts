/** What open pages say of a database, a rate-limit store and refreshes that fail. */
import { afterAll, expect, test } from 'vitest';
import type { Sample } from '../../server/manage/live/counters.ts';
import { Tally } from '../../server/manage/live/tally.ts';
import { closeTabs, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { postgresPids } from '../helpers/processes.ts';
import { signedRequest } from '../helpers/requests.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';
import { asApp, kill, startWeir } from '../helpers/weir.ts';

const weir = shared(() => startWeir({ WORKERS: 1 }));
const site = shared(async () => asApp(weir));
const person = shared(() => addPerson(site, 'operator'));
afterAll(closeTabs);

async function signalPostgres(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
  const { postmaster } = (await postgresPids(weir.dataDir))!;
  kill(postmaster, signal);
  for (const pid of (await postgresPids(weir.dataDir))!.backends) kill(pid, signal);
}

test('the status is shown before its checks have run, and completed afterwards', async () => {
  const read = async (path: string) => (await fetch(site.url + path, { headers: { cookie: person.cookie } })).text();
  expect(await read('/status')).toContain('The checks are running');
  const tab = await openTab(site, person);
  await tab.page.goto('/status');
  await tab.page.getByText(/\d+ checks?, run at/).waitFor();
  await tab.close();
  // Without JavaScript, the link of the page waits.
  expect(await read('/status?checks=wait')).not.toContain('The checks are running');
});

test('a frozen Postgres is reported by open and by new pages, until it continues', async () => {
  const open = await openTab(site, person);
  const late = await openTab(site, person);
  const banner = open.page.getByText('The database does not answer.');
  const webhook = await weir.addWebhook();
  const status = await openTab(site, person);
  const stamp = open.page.locator('#now-live', { hasText: /^Not updated for \d+ s$/ });
  try {
    await status.page.goto('/status');
    await open.page.goto('/');
    await until(async () => (await weir.metric('weir_streams')) === 2);
    expect(await banner.isVisible()).toBe(false);
    await signalPostgres('SIGSTOP');
    await banner.waitFor();
    await stamp.waitFor();
    expect(await open.page.locator('#now').getAttribute('data-old')).toBe('');
    expect((await fetch(site.url + webhook.path, signedRequest({ secret: webhook.secret, body: '{}' }))).status).toBe(
      503,
    );
    await status.page
      .locator('[data-outage="database"]', { hasText: /Since .+: 1 request refused, 0 events spooled\./ })
      .waitFor();
    // The session of a new page cannot be read.
    await late.page.goto('/?late');
    await late.page.getByText('This page tries again by itself.').waitFor();
    expect(await late.page.getByRole('alert').innerText()).toMatch(
      /The database does not answer\. Since [\d: -]+: 1 request refused, 0 events spooled\./,
    );
  } finally {
    await signalPostgres('SIGCONT');
  }
  await late.page.getByRole('heading', { name: 'Overview' }).waitFor();
  await banner.waitFor({ state: 'hidden' });
  await status.page
    .getByText(/Since .+ refused/)
    .first()
    .waitFor({ state: 'hidden' });
  await stamp.waitFor({ state: 'hidden' });
  expect(await open.page.locator('#now').getAttribute('data-old')).toBe(null);
  await open.page.goto('/issues?state=resolved');
  const listed = open.page.getByText(
    /^Postgres did not commit events of machine .+: 1 request refused, 0 events spooled$/,
  );
  await until(async () => (await open.page.reload()) !== null && (await listed.count()) === 1);
  await Promise.all([open.close(), late.close(), status.close()]);
});

test('a rate-limit store that does not answer, and a spool in use, are reported by the next message of the stream', async () => {
  const app = await ofTest(startPagesApp());
  const tab = await ofTest(openTab(app, await addPerson(app, 'viewer')));
  await tab.page.goto('/events');
  await until(async () => (await app.metric('weir_streams')) === 1);
  const send = (change: Partial<Sample>) => {
    const tally = new Tally(Date.now());
    tally.take(process.pid, { ...app.app.sample(), ...change }, Date.now());
    app.app.live(tally.second(Date.now(), null));
  };
  const banner = tab.page.getByText('The rate-limit store does not answer.');
  send({ rateLimitStore: 'degraded' });
  await banner.waitFor();
  expect(await tab.page.getByText('The database does not answer.').isVisible()).toBe(false);
  // Also on the next page, which the server renders. The stream of the last one has ended before.
  await tab.page.goto('about:blank');
  await until(async () => (await app.metric('weir_streams')) === 0);
  await tab.page.goto('/events');
  await banner.waitFor();
  await until(async () => (await app.metric('weir_streams')) === 1);
  send({ rateLimitStore: 'ok', database: 'down', spools: true });
  await banner.waitFor({ state: 'hidden' });
  const spooling = tab.page.getByText('New events wait in the spool of this machine,');
  await spooling.waitFor();
  expect(await tab.page.getByText('The database does not answer.').isVisible()).toBe(false);
  send({ database: 'up' });
  await spooling.waitFor({ state: 'hidden' });
});
