/** Errors for operators: what is wrong and how to fix it, as two values. Neither contains a secret. */

export interface Fault {
  finding: string;
  /** Null: the finding contains all that is known. */
  fix: string | null;
}

/** A fault as one sentence. Instructions of several lines follow a finding that ends with a colon. */
function faultText({ finding, fix }: Fault): string {
  if (fix === null) return finding;
  return `${finding}${finding.endsWith(':') ? '\n' : '; '}${fix}`;
}

/** An expected failure: commands print its message alone, without a stack. */
export class OperatorError extends Error implements Fault {
  readonly finding: string;
  readonly fix: string | null;

  constructor(finding: string, fix: string | null = null) {
    super(faultText({ finding, fix }));
    this.finding = finding;
    this.fix = fix;
  }
}

/** Invalid settings: one fault for each. */
export class SettingsError extends OperatorError {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map(faultText).join('\n'));
    this.faults = faults;
  }
}
