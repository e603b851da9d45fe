/** Results of `weir doctor`. */
import { type ConditionKind, conditionOf } from './conditions.ts';
import type { Fault } from './fault.ts';

/** One result of `weir doctor`. */
export interface Check {
  /** What was checked, in snake_case; several checks may share a name. */
  name: string;
  /** `advice`: works, but could be better; `problem`: does not work, or breaks a guarantee of Weir. */
  state: 'ok' | 'advice' | 'problem';
  /** What was found, for people; never contains a secret. */
  finding: string;
  /** How to fix it; null when there is nothing to fix. */
  fix: string | null;
}

export function ok(name: string, finding: string): Check {
  return { name, state: 'ok', finding, fix: null };
}

/** Weir works, and the fix improves it. */
export function advice(name: string, finding: string, fix: string): Check {
  return { name, state: 'advice', finding, fix };
}

/** Weir, or a part of it, does not work before the fix. */
export function problem(name: string, finding: string, fix: string): Check {
  return { name, state: 'problem', finding, fix };
}

/** A condition that holds, with the sentence and the fix of the table. */
export function conditionCheck(name: string, kind: ConditionKind, value: number): Check {
  const { text, fix } = conditionOf(kind);
  return problem(name, phrase(text({ name: '', value, threshold: null, cause: '' })), phrase(fix));
}

/** A sentence of the table as findings and fixes are written: without the full stop. */
function phrase(sentence: string): string {
  return `${sentence[0]!.toLowerCase()}${sentence.slice(1).replace(/\.$/, '')}`;
}

/** @param otherwise the fix for a fault that states none. */
export function problemOf(name: string, { finding, fix }: Fault, otherwise: string): Check {
  return problem(name, finding, fix ?? otherwise);
}
