/** Faults of one Weir under load: each is made, lasts, and is undone, and nothing that was answered 202 is lost. */
import { expect, test } from 'vitest';
import type { Overrides } from '../helpers/app.ts';
import type { Chain } from '../helpers/chain.ts';
import { missing, type Sender, type SenderOptions } from '../helpers/sender.ts';
import { PATIENCE_MS, until } from '../helpers/wait.ts';
import { readiness } from '../helpers/weir.ts';

interface Fault {
  /** False: this machine cannot make it, and the test is skipped. */
  possible?: boolean;
  /** Settings that Weir has from this test on, beside those of the chain. */
  settings?: Overrides;
  /** By default about 500 events a second to the webhook of the chain. */
  load?: Partial<SenderOptions> & { first?: number };
  /** Makes the fault; returns how it is undone, unless Weir recovers without that. */
  make(sender: Sender): Promise<(() => unknown) | undefined>;
  /** What holds while it lasts. */
  during?(sender: Sender): unknown;
  /** Events that are accepted after it, by default 300. */
  more?: number;
  /** Codes of responses other than 202 that it may cause; by default it causes none. */
  refusals?: readonly string[];
  /** Requests that may be left without a response: by default none. */
  losses?: 'of new connections' | 'in progress' | undefined;
  /** What holds after it. */
  after?(sender: Sender): unknown;
}

/** @returns `test` of a title and a fault: a row of the table of faults */
export function underLoad(chain: Chain) {
  return {
    test(
      title: string,
      { possible = true, settings, load, make, during, more = 300, refusals = [], losses, after }: Fault,
    ): void {
      test.runIf(possible)(title, async () => {
        if (settings !== undefined) await chain.configure(settings);
        const sender = await chain.startLoad(load);
        const undo = await make(sender);
        try {
          await during?.(sender);
        } finally {
          await undo?.();
        }
        await sender.acceptMore(more);
        await until(async () => (await readiness(chain.weir.port))?.status === 200, { timeoutMs: 2 * PATIENCE_MS });
        await sender.stop();
        await expectNothingLost(chain, sender, { refusals, losses });
        await after?.(sender);
      });
    },
  };
}

/** After the end of the sender: its refusals and losses are those of the fault, and every event that was answered 202 is stored. */
export async function expectNothingLost(
  chain: Chain,
  sender: Sender,
  { refusals = [], losses }: Pick<Fault, 'refusals' | 'losses'> = {},
): Promise<void> {
  const unexpected = sender.refusals.filter(({ code }) => !refusals.includes(code));
  expect(unexpected).toEqual([]);
  for (const { status, retryAfter } of sender.refusals)
    expect([status, Number(retryAfter) >= 1], 'the status and Retry-After of a refusal').toEqual([503, true]);
  if (losses === undefined) expect(sender.losses).toEqual([]);
  else if (losses === 'of new connections') expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
  expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
}
