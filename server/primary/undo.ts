/** What was begun, undone in the reverse order: whoever begins a thing pushes how to end it. */
export class UndoStack {
  readonly #steps: (() => unknown)[] = [];

  push(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Runs all steps, the last one first, each awaited. A step that fails does not keep the others from running; its error is thrown at the end. */
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
