import { expect, test } from 'vitest';
import { HOUR_MS } from '../../../../server/base/time/durations.ts';
import { noCounts } from '../../../../server/model/history.ts';
import { addHistory } from '../../../../server/store/queries/webhooks/history.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { someKey } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(() => startTestApp({ SECRETS_KEY: someKey }));

test('history shows requests by hour, and longer ones by day', async () => {
  const webhook = await app.addWebhook();
  const minuteMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  const counts = { accepted: 12, duplicates: 1, rejected: 2, limited: 3, bytes: 400 };
  await addHistory(app.database, [{ webhookId: webhook.id, minuteMs, ...counts }]);
  const { step, points } = await weirJson(app, 'history', '--webhook', webhook.id);
  expect([step, points.length]).toEqual([3600, 24]);
  expect(points.filter(({ accepted }: { accepted: number }) => accepted > 0)).toEqual([
    { at: new Date(minuteMs).toISOString(), ...noCounts(), ...counts },
  ]);
  const { out } = await weir(app, 'history', '--webhook', webhook.id, '--hours', '49');
  const lines = out.trimEnd().split('\n');
  expect(lines[0]).toMatch(/^FROM +ACCEPTED +DUPLICATES +REJECTED +LIMITED +BYTES$/);
  expect(lines).toHaveLength(4);
  expect(out).toMatch(/^\d{4}-\d\d-\d\d +12 +1 +2 +3 +400$/m);
  expect((await weir(app, 'history', '--hours', '9601')).code).toBe(2);
});
