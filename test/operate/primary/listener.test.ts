import { expect, test } from 'vitest';
import type { Log } from '../../../server/base/telemetry/log.ts';
import { relayChange, reviver } from '../../../server/operate/primary/listener.ts';

test('a server that does not start is tried less and less often, and each reason is logged once', async () => {
  const lines: unknown[] = [];
  const log = Object.assign((event: string, fields = {}) => void lines.push({ event, ...fields }), {
    enabled: () => true,
    dropped: () => 0,
  }) as Log;
  let [nowMs, tries] = [0, 0];
  let failure: string | null = 'the disk is full\n10:00 PANIC';
  const revive = reviver(
    async () => {
      tries++;
      if (failure !== null) throw new Error(`${failure} ${tries}`);
    },
    log,
    () => nowMs,
  );
  // As the listener asks: once a second, for ten minutes.
  for (; nowMs < 600_000; nowMs += 1_000) await revive();
  expect(tries).toBeGreaterThan(600 / 16);
  expect(tries).toBeLessThan(100);
  expect(lines).toEqual([{ event: 'database_start_failed', reason: 'the disk is full\n10:00 PANIC 1' }]);
  failure = 'no permission\n';
  for (const until = nowMs + 20_000; nowMs < until; nowMs += 1_000) await revive();
  failure = null;
  for (const until = nowMs + 20_000; nowMs < until; nowMs += 1_000) await revive();
  const before = tries;
  await revive();
  expect([tries, lines.length]).toEqual([before + 1, 2]);
});

test('a change of cells reaches the processes although the primary cannot read the cells, and is not confirmed', async () => {
  const applied: string[] = [];
  const relay = relayChange(
    { load: () => Promise.reject(new Error('cut off')) },
    { webhooksChanged: () => {} },
    {
      applyEverywhere: async (payload) => {
        applied.push(payload);
      },
    },
  );
  await expect(relay('cell:1')).rejects.toThrow('cut off');
  await relay('webhook:1');
  expect(applied).toEqual(['cell:1', 'webhook:1']);
});

test('a cancelled call reaches the processes, and the copy of the webhooks is not written again', async () => {
  const applied: string[] = [];
  let copies = 0;
  const relay = relayChange(
    { load: async () => {} },
    { webhooksChanged: () => copies++ },
    {
      applyEverywhere: async (payload) => {
        applied.push(payload);
      },
    },
  );
  await relay('call:1');
  expect([applied, copies]).toEqual([['call:1'], 0]);
  await relay('webhook:1');
  expect(copies).toBe(1);
});
