/** The doctor of a serving process: the primary's. It alone may read all that the doctor looks at, when Weir was started by root. */
import type { Checkup, Doctor } from './ask.ts';

export class DoctorRelay implements Doctor {
  readonly #send: (ticket: number) => void;
  readonly #waiting = new Map<number, (checkup: Checkup) => void>();
  #tickets = 0;

  /** @param send asks the primary, which answers each ticket within seconds. */
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

  /** The primary's answer to a ticket. */
  answer(ticket: number, checkup: Checkup): void {
    this.#waiting.get(ticket)?.(checkup);
    this.#waiting.delete(ticket);
  }

  close(): void {}
}
