/** Values of a statement that is put together from parts: each gets the next placeholder, none gets into the text. */
export class Placeholders {
  readonly values: unknown[] = [];

  /** Keeps the value; returns what stands for it in the statement. */
  of(value: unknown, type: string): string {
    return `$${this.values.push(value)}::${type}`;
  }
}
