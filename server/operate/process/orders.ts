/** Passes the orders of `weir reload` and `weir processes` on to the primary. */
import { within } from '../../base/time/within.ts';
import type { FromProcess } from '../primary/messages.ts';
import type { Control, Order, Refused } from '../primary/order.ts';

/** Longest wait for the primary. One of a release that knows no orders does not answer. */
const TIMEOUT_MS = 5_000;

export type GiveOrder = (order: Order) => Promise<Control | Refused>;

export class OrderRelay {
  readonly #send: (message: FromProcess) => void;
  readonly #waiting = new Map<number, (answer: Control | Refused) => void>();
  #tickets = 0;

  constructor(send: (message: FromProcess) => void) {
    this.#send = send;
  }

  readonly give: GiveOrder = async (order) => {
    const ticket = this.#tickets++;
    const answer = new Promise<Control | Refused>((resolve) => this.#waiting.set(ticket, resolve));
    this.#send({ kind: 'order', ticket, order });
    const given = await within(TIMEOUT_MS, answer);
    this.#waiting.delete(ticket);
    return given ?? { refused: 'the primary does not answer; restart Weir' };
  };

  /** Passes on the primary's answer to a ticket. */
  answer(ticket: number, answer: Control | Refused): void {
    this.#waiting.get(ticket)?.(answer);
  }
}
