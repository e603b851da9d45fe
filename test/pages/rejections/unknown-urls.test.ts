/** A sender whose URL is of no webhook is on the page Status, with its client. */
import { expect, onTestFinished, test } from 'vitest';
import { Tally } from '../../../server/manage/live/tally.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';

test('Status lists requests to unknown URLs below /in/, of whatever form, with the client', async () => {
  const app = await startTestApp();
  onTestFinished(() => app.stop());
  const { cookie } = await addPerson(app, 'operator');
  const post = async (path: string) => (await fetch(`${app.url}${path}`, { method: 'POST', body: '{}' })).status;
  expect(await post('/in/01900000-0000-4000-8000-000000000000')).toBe(404);
  expect(await post('/in/shop<b>/orders')).toBe(404);
  expect(await post('/elsewhere')).toBe(404);
  const tally = new Tally(Date.now());
  tally.take(1, app.app.sample(), Date.now());
  app.app.live(tally.second(Date.now(), null));
  const page = await (await fetch(`${app.url}/status`, { headers: { cookie } })).text();
  const rows = [...page.matchAll(/<li><b>at least (\d+)<\/b> × <code class="wrap">([^<]*)<\/code> from ([^,]*),/g)];
  expect(rows.map(([, ...row]) => row).sort()).toEqual([
    ['1', '/in/01900000-0000-4000-8000-000000000000', '127.0.0.1'],
    ['1', '/in/shop%3Cb%3E/orders', '127.0.0.1'],
  ]);
});
