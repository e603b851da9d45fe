/** What the primary reports when alerts cannot be sent. */
import { expect, test } from 'vitest';
import { Alerts } from '../../../server/operate/primary/alerts.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const fresh = shared(freshDatabase);

test('an error of a statement is logged once, until requests are sent again', async () => {
  const lines: [string, unknown][] = [];
  const log = Object.assign((event: string, fields: unknown) => void lines.push([event, fields]), {
    enabled: () => true,
    dropped: () => 0,
  });
  const settings = settingsOf({ ALERT_URL: 'https://alerts.example/hook' });
  const contents = async () => expect.fail('there is no spool');
  const alerts = new Alerts({
    cells: { all: () => [] },
    disks: { states: [] },
    database: fresh.database,
    log,
    settings: () => settings,
    spool: { folder: null, contents },
    startedMs: 0,
  });
  const deliver = () => alerts.deliver(new AbortController().signal);
  const failure = ['alerts_failed', { reason: 'relation "alert_requests" does not exist' }];
  await fresh.database.query({ text: 'alter table alert_requests rename to elsewhere' });
  await deliver();
  await deliver();
  expect(lines).toEqual([failure]);
  await fresh.database.query({ text: 'alter table elsewhere rename to alert_requests' });
  await deliver();
  await fresh.database.query({ text: 'alter table alert_requests rename to elsewhere' });
  await deliver();
  expect(lines).toEqual([failure, failure]);
});
