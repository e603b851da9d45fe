/** Values of a statement that is assembled from parts. Each value gets the next placeholder; no value enters the text. */
export class Placeholders {
  readonly values: unknown[] = [];

  /** Adds the value; returns its placeholder. */
  of(value: unknown, type: string): string {
    return `$${this.values.push(value)}::${type}`;
  }
}
