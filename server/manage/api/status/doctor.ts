/**
 * Runs `weir doctor` for the Status page in a child process of the primary. Its work (DNS, files, another database connection) then does not
 * delay webhooks, and it sees Weir as an operator's shell does: when root started Weir, only the primary can read all that doctor checks.
 */
import { execFile } from 'node:child_process';
import { builtFile } from '../../../base/files/build.ts';
import { SharedCheck } from '../../../base/time/shared-check.ts';
import type { Check } from '../../../model/check.ts';

/** Lifetime of a result. One run costs about a second of one core. */
const VALID_MS = 30_000;
const TIMEOUT_MS = 20_000;
const OUTPUT_BYTES_MAX = 1_048_576;

export interface Checkup {
  state: 'done' | 'running' | 'failed';
  /** Completion time; null while running. */
  at: string | null;
  checks: readonly Check[];
}

/** Resolves with the latest result, or a new one; concurrent calls share one run. Never rejects. */
export type AskDoctor = () => Promise<Checkup>;

/**
 * Returns a function that runs weir doctor, one run at a time.
 * @param program compiled cli/weir.js
 * @param stop aborts a run
 */
export function createDoctor(program = builtFile('server/cli/weir.js'), stop?: AbortSignal): AskDoctor {
  const check = new SharedCheck<Checkup>({
    ask: () => run(program, stop),
    validMs: () => VALID_MS,
    patienceMs: TIMEOUT_MS,
    late: { state: 'failed', at: null, checks: [] },
    nowMs: () => performance.now(),
  });
  return () => check.answer();
}

function run(program: string, signal: AbortSignal | undefined): Promise<Checkup> {
  const bounds = { timeout: TIMEOUT_MS, maxBuffer: OUTPUT_BYTES_MAX, signal };
  return new Promise((resolve) => {
    // The exit code is 1 when a check is a problem, so the error is ignored and the output is parsed.
    execFile(process.execPath, [program, 'doctor', '--json'], bounds, (_error, stdout) => {
      const checks = checksIn(stdout);
      resolve({ state: checks === null ? 'failed' : 'done', at: new Date().toISOString(), checks: checks ?? [] });
    });
  });
}

function checksIn(text: string): Check[] | null {
  try {
    return (JSON.parse(text) as { checks: Check[] }).checks;
  } catch {
    return null;
  }
}
