/** Bounds how often something is reported: the first one at once, then one in each interval, with the number left out. */
export class Throttle<Report> {
  readonly #write: (report: Report, leftOut: number) => void;
  readonly #intervalMs: number;
  #waiting: NodeJS.Timeout | null = null;
  #last: Report | null = null;
  #leftOut = 0;

  /** @param write gets the newest report and how many before it were left out. */
  constructor(intervalMs: number, write: (report: Report, leftOut: number) => void) {
    this.#intervalMs = intervalMs;
    this.#write = write;
  }

  add(report: Report): void {
    if (this.#waiting === null) {
      this.#write(report, 0);
      this.#wait();
      return;
    }
    if (this.#last !== null) this.#leftOut++;
    this.#last = report;
  }

  #wait(): void {
    this.#waiting = setTimeout(() => this.#elapsed(), this.#intervalMs).unref();
  }

  #elapsed(): void {
    this.#waiting = null;
    const report = this.#last;
    if (report === null) return;
    const leftOut = this.#leftOut;
    this.#last = null;
    this.#leftOut = 0;
    this.#write(report, leftOut);
    this.#wait();
  }
}
