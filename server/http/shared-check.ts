/** A question that many callers ask: asked once at a time, its answer kept for a while, and nobody waits long for it. */
interface SharedCheckOptions<T> {
  /** Asks. When it rejects, the answer is `late`. */
  ask: () => Promise<T>;
  /** How long an answer is kept. */
  validMs: (answer: T) => number;
  /** How long a caller waits for a question under way, counted from its begin. */
  patienceMs: number;
  /** What a caller gets that waited for so long. */
  late: T;
  /** Milliseconds of a clock that only goes forward. */
  nowMs: () => number;
}

export class SharedCheck<T> {
  readonly #options: SharedCheckOptions<T>;
  #known: { answer: T; atMs: number } | null = null;
  #underWay: { answer: Promise<T>; startedMs: number } | null = null;

  constructor(options: SharedCheckOptions<T>) {
    this.#options = options;
  }

  /** The answer is known from elsewhere. */
  note(answer: T): void {
    this.#known = { answer, atMs: this.#options.nowMs() };
  }

  /** Resolves within `patienceMs`; never rejects. */
  async answer(): Promise<T> {
    const { validMs, patienceMs, late, nowMs } = this.#options;
    if (this.#known !== null && nowMs() - this.#known.atMs < validMs(this.#known.answer)) return this.#known.answer;
    this.#underWay ??= { answer: this.#ask(), startedMs: nowMs() };
    const leftMs = this.#underWay.startedMs + patienceMs - nowMs();
    if (leftMs <= 0) return late;
    let timer: NodeJS.Timeout;
    const patience = new Promise<T>((resolve) => {
      timer = setTimeout(resolve, leftMs, late);
    });
    return Promise.race([this.#underWay.answer, patience]).finally(() => clearTimeout(timer));
  }

  async #ask(): Promise<T> {
    const startedMs = this.#options.nowMs();
    const answer = await this.#options.ask().catch(() => this.#options.late);
    this.#underWay = null;
    // What was noted in the meantime is newer.
    if (this.#known === null || this.#known.atMs <= startedMs) this.note(answer);
    return answer;
  }
}
