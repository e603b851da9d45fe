/**
 * What `weir doctor` says, for the page Status: asked of a program of its own, so that nothing it does (DNS, files, another
 * attachment to the database) holds up webhooks, and so that it finds Weir as an operator's shell would.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Check } from './check.ts';

/** An answer holds for this long; it costs about a second of one core. */
const VALID_MS = 30_000;
const TIMEOUT_MS = 20_000;
/** Whoever asks does not wait longer for it; the next one finds it. */
const PATIENCE_MS = 5_000;
const OUTPUT_BYTES_MAX = 1_048_576;

export interface Checkup {
  state: 'done' | 'running' | 'failed';
  /** When it was done. */
  at: string | null;
  checks: readonly Check[];
}

export interface Doctor {
  /** What the last examination found; soon. */
  ask(): Promise<Checkup>;
  /** Ends an examination that is under way. */
  close(): void;
}

const running: Checkup = { state: 'running', at: null, checks: [] };
const defaultProgram = fileURLToPath(new URL('../cli/weir.js', import.meta.url));

export class DoctorOffice implements Doctor {
  readonly #program: string;
  #last: Promise<Checkup> = Promise.resolve(running);
  #dueMs = 0;
  #examining = false;
  readonly #stop = new AbortController();

  /** @param program compiled cli/weir.js */
  constructor(program = defaultProgram) {
    this.#program = program;
  }

  /** One examination at a time, however many ask. */
  async ask(): Promise<Checkup> {
    if (!this.#examining && performance.now() >= this.#dueMs) {
      this.#examining = true;
      this.#last = this.#examine().finally(() => {
        this.#examining = false;
        this.#dueMs = performance.now() + VALID_MS;
      });
    }
    const patience = new Promise<Checkup>((resolve) => setTimeout(resolve, PATIENCE_MS, running).unref());
    return Promise.race([this.#last, patience]);
  }

  close(): void {
    this.#stop.abort();
  }

  #examine(): Promise<Checkup> {
    const bounds = { timeout: TIMEOUT_MS, maxBuffer: OUTPUT_BYTES_MAX, signal: this.#stop.signal };
    return new Promise((resolve) => {
      // It ends with 1 when it has found a problem: what it printed counts.
      execFile(process.execPath, [this.#program, 'doctor', '--json'], bounds, (_error, stdout) => {
        const checks = checksIn(stdout);
        const at = new Date().toISOString();
        resolve(checks === null ? { state: 'failed', at, checks: [] } : { state: 'done', at, checks });
      });
    });
  }
}

function checksIn(text: string): Check[] | null {
  try {
    return (JSON.parse(text) as { checks: Check[] }).checks;
  } catch {
    return null;
  }
}
