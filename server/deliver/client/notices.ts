/** What an agent reports while it runs. */
import type { Delivery } from './delivery.ts';
import type { Trouble } from './http.ts';

/**
 * - `retrying`: a call failed and is repeated, or the credential was refused and another one is waited for; reported once for each outage
 * - `recovered`: a call was answered again, or another credential was accepted
 * - `failed`: a handler failed; the delivery is attempted again, or becomes a dead letter after the last attempt
 * - `lease_lost`: the lease ended before the delivery was settled, so the delivery is delivered again
 */
export type AgentNotice = { message: string } & (
  | { kind: 'retrying'; cause: string; afterMs: number }
  | { kind: 'recovered' }
  | { kind: 'failed'; delivery: Delivery; reason: string }
  | { kind: 'lease_lost'; delivery: Delivery }
);

/** Must not throw. */
export type Notify = (notice: AgentNotice) => void;

/** Prints a warning of the process, for agents without an own `notify`. */
export function warn({ message }: AgentNotice): void {
  process.emitWarning(message, 'WeirWarning');
}

/** Reports each outage once: it may have many attempts. @param base URL of the server */
export function troubleNotices(notify: Notify, base: string): Trouble {
  let inTrouble = false;
  return {
    waiting: (cause, afterMs) => {
      if (inTrouble) return;
      inTrouble = true;
      const message = `${base}: ${cause}: next attempt in ${(afterMs / 1000).toFixed(1)} s.`;
      notify({ kind: 'retrying', message, cause, afterMs });
    },
    over: () => {
      if (!inTrouble) return;
      inTrouble = false;
      notify({ kind: 'recovered', message: 'The server is available again.' });
    },
  };
}
