/** Cleanup steps, run in reverse order. Code that acquires a resource pushes the step that releases it. */
export class UndoStack {
  readonly #steps: (() => unknown)[] = [];

  push(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Runs all steps, the last one first. A failed step does not stop the others; the first error is thrown at the end. */
  async run(): Promise<void> {
    const errors: unknown[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
