/** Invalid input that only the database can detect, e.g. an unknown id. Rolls back the transaction. */
export class InputError extends Error {
  readonly path: readonly PropertyKey[];
  constructor(path: readonly PropertyKey[], detail: string) {
    super(detail);
    this.path = path;
  }
}
