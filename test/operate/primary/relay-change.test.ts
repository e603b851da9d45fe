/** How the primary passes a change to its processes. */
import { expect, test } from 'vitest';
import { relayChange } from '../../../server/operate/primary/listener.ts';

test('a change of cells reaches the processes although the primary cannot read the cells, and is not confirmed', async () => {
  const applied: string[] = [];
  const relay = relayChange(
    { changed: () => Promise.reject(new Error('cut off')) },
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
    { changed: async () => {} },
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
