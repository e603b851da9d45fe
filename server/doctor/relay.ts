/** Relays doctor requests of a serving process to the primary. When root started Weir, only the primary can read all that doctor checks. */
import type { Checkup, Doctor } from './ask.ts';

export class DoctorRelay implements Doctor {
  readonly #send: (ticket: number) => void;
  readonly #waiting = new Map<number, (checkup: Checkup) => void>();
  #tickets = 0;

  /** @param send sends a request to the primary, which answers each ticket within seconds. */
  constructor(send: (ticket: number) => void) {
    this.#send = send;
  }

  ask(): Promise<Checkup> {
    const ticket = this.#tickets++;
    return new Promise((resolve) => {
      this.#waiting.set(ticket, resolve);
      this.#send(ticket);
    });
  }

  /** Passes on the primary's answer to a ticket. */
  answer(ticket: number, checkup: Checkup): void {
    this.#waiting.get(ticket)?.(checkup);
    this.#waiting.delete(ticket);
  }

  close(): void {}
}
