/**
 * Runs `weir doctor` for the Status page in a child process. Its work (DNS, files, another database connection) then does not delay
 * webhooks, and it sees Weir as an operator's shell does.
 */
import { execFile } from 'node:child_process';
import { builtFile } from '../../../base/files/build.ts';
import type { Check } from '../../../model/check.ts';

/** Lifetime of a cached result. One run costs about a second of one core. */
const VALID_MS = 30_000;
const TIMEOUT_MS = 20_000;
/** Longest wait of one caller. A later call gets the result. */
export const WAIT_MAX_MS = 5_000;
const OUTPUT_BYTES_MAX = 1_048_576;

export interface Checkup {
  state: 'done' | 'running' | 'failed';
  /** Completion time; null while running. */
  at: string | null;
  checks: readonly Check[];
}

export interface Doctor {
  /** Returns the latest result, or after `waitMs` (at most WAIT_MAX_MS, the default) that the checks are running. */
  ask(waitMs?: number): Promise<Checkup>;
  /** Aborts a running examination. */
  close(): void;
}

const running: Checkup = { state: 'running', at: null, checks: [] };

export class DoctorRunner implements Doctor {
  readonly #program: string;
  #last: Promise<Checkup> = Promise.resolve(running);
  #dueMs = 0;
  #examining = false;
  readonly #stop = new AbortController();

  /** @param program compiled cli/weir.js */
  constructor(program = builtFile('server/cli/weir.js')) {
    this.#program = program;
  }

  /** Concurrent calls share one examination. */
  async ask(waitMs = WAIT_MAX_MS): Promise<Checkup> {
    if (!this.#examining && performance.now() >= this.#dueMs) {
      this.#examining = true;
      this.#last = this.#examine().finally(() => {
        this.#examining = false;
        this.#dueMs = performance.now() + VALID_MS;
      });
    }
    return Promise.race([this.#last, runningAfter(waitMs)]);
  }

  close(): void {
    this.#stop.abort();
  }

  #examine(): Promise<Checkup> {
    const bounds = { timeout: TIMEOUT_MS, maxBuffer: OUTPUT_BYTES_MAX, signal: this.#stop.signal };
    return new Promise((resolve) => {
      // The exit code is 1 when a check is a problem, so the error is ignored and the output is parsed.
      execFile(process.execPath, [this.#program, 'doctor', '--json'], bounds, (_error, stdout) => {
        const checks = checksIn(stdout);
        const at = new Date().toISOString();
        resolve(checks === null ? { state: 'failed', at, checks: [] } : { state: 'done', at, checks });
      });
    });
  }
}

function runningAfter(ms: number): Promise<Checkup> {
  return new Promise((resolve) => setTimeout(resolve, ms, running).unref());
}

function checksIn(text: string): Check[] | null {
  try {
    return (JSON.parse(text) as { checks: Check[] }).checks;
  } catch {
    return null;
  }
}

/**
 * Relays requests of a serving process to the primary. When root started Weir, only the primary can read all that doctor checks.
 */
export class DoctorRelay implements Doctor {
  readonly #send: (ticket: number) => void;
  readonly #waiting = new Map<number, (checkup: Checkup) => void>();
  #tickets = 0;

  /** @param send sends a request to the primary, which answers each ticket within seconds. */
  constructor(send: (ticket: number) => void) {
    this.#send = send;
  }

  ask(waitMs = WAIT_MAX_MS): Promise<Checkup> {
    const ticket = this.#tickets++;
    const answer = new Promise<Checkup>((resolve) => {
      this.#waiting.set(ticket, resolve);
      this.#send(ticket);
    });
    // The primary itself answers after WAIT_MAX_MS.
    return waitMs < WAIT_MAX_MS ? Promise.race([answer, runningAfter(waitMs)]) : answer;
  }

  /** Passes on the primary's answer to a ticket. */
  answer(ticket: number, checkup: Checkup): void {
    this.#waiting.get(ticket)?.(checkup);
    this.#waiting.delete(ticket);
  }

  close(): void {}
}
