/** What replacing processes ends with: all of them by HUP, or one because of its memory. */
import type { Member, Plan } from './member.ts';

/** The result of a rolling restart: `replaced` processes are new, `kept` processes are old and keep serving. */
export type RestartOutcome = { replaced: number } & ({ ok: true } | { ok: false; reason: string; kept: number });

/** The result of replacing one process; `successor` is the new one. */
export type Replacement<Process = Member> = { ok: true; successor: Process } | { ok: false; reason: string };

/** A rolling restart, or the replacement of one process, under way. */
export interface Restart {
  plan: Plan;
  /** Processes still to replace. */
  stale: Set<Member>;
  replaced: number;
  /** The latest process of `plan` that serves. */
  successor?: Member;
  settle: (outcome: RestartOutcome) => void;
}

/** Describes the failure of a new process for people. */
export function failureOf({ pid, reason }: Member): string {
  if (typeof reason === 'number') return `the new process ${pid} ended with exit code ${reason}`;
  return /^SIG[A-Z0-9]+$/.test(reason) ? `the new process ${pid} was ended by ${reason}` : reason;
}
