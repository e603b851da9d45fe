/**
 * Limits the rate of reports. The first ones of an interval are written immediately. At its end, the newest of the others is written with
 * the number left out, and counts as the first report of the next interval.
 */
export class Throttle<Report> {
  readonly #write: (report: Report, leftOut: number) => void;
  readonly #intervalMs: number;
  readonly #atOnceMax: number;
  #written = 0;
  #waiting: NodeJS.Timeout | null = null;
  #last: Report | null = null;
  #leftOut = 0;

  /**
   * @param write gets a report and the number of reports left out before it.
   * @param atOnceMax number of reports per interval that are written immediately.
   */
  constructor(intervalMs: number, write: (report: Report, leftOut: number) => void, atOnceMax = 1) {
    this.#intervalMs = intervalMs;
    this.#atOnceMax = atOnceMax;
    this.#write = write;
  }

  add(report: Report): void {
    if (this.#written < this.#atOnceMax) {
      this.#written++;
      this.#write(report, 0);
      if (this.#waiting === null) this.#wait();
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
    this.#written = 0;
    const report = this.#last;
    if (report === null) return;
    const leftOut = this.#leftOut;
    this.#last = null;
    this.#leftOut = 0;
    this.#written = 1;
    this.#write(report, leftOut);
    this.#wait();
  }
}
