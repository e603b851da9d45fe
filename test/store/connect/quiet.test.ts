/** libpq writes to stderr what a server says between statements. */
import { expect, test } from 'vitest';
import { freshDatabase } from '../../helpers/postgres.ts';
import { someKey } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { startWeir } from '../../helpers/weir.ts';

test('notices and warnings write nothing but lines of the log, and ends of sessions at most their reason', async () => {
  const fresh = await ofTest(freshDatabase());
  await fresh.sql(`alter database ${fresh.name} set client_min_messages = notice`);
  const weir = await ofTest(startWeir({ DATABASE_URL: fresh.conninfo, SECRETS_KEY: someKey, WORKERS: 1 }));
  await until(() => weir.events('listener_up').length === 1);
  await weir.addWebhook();
  await fresh.cutOff();
  await until(() => weir.events('listener_down').length > 0);
  await fresh.restore();
  await until(() => weir.events('listener_up').length === 2);
  expect(weir.events('listener_down')[0]).toMatchObject({
    // The second, when the connection was reset before the message was read.
    reason: expect.stringMatching(/terminating connection due to administrator command|server closed the connection/),
  });
  // An end that arrives right behind the answer of a statement is printed by libpq itself.
  const isEnd = ({ line }: { line?: unknown }) => /^(FATAL: {2}terminating connection [^\n]+\n*)*$/.test(String(line));
  expect(isEnd({ line: weir.stderr() }), weir.stderr()).toBe(true);
  expect(weir.events('process_output').filter((event) => !isEnd(event))).toEqual([]);
});
