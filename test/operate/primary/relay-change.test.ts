/** How the primary passes a change to its processes. */
import { expect, test } from 'vitest';
import { relayChange } from '../../../server/operate/primary/relay-change.ts';

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
