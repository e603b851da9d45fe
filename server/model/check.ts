/** Checks of `weir doctor`, and of a database before it is used. Each row of a table of checks reads, judges, and names the fix. */
import type { Fault } from './fault.ts';

export interface Finding {
  /** `advice`: works, but could be better; `problem`: does not work, or breaks a guarantee of Weir. */
  state: 'ok' | 'advice' | 'problem';
  /** What was found, for people; never contains a secret. */
  finding: string;
  /** How to fix it; null when there is nothing to fix. */
  fix: string | null;
}

export interface Check extends Finding {
  /** What was checked, in snake_case; several checks may share a name. */
  name: string;
}

/** Nothing to fix. */
export function ok(finding: string): Finding {
  return { state: 'ok', finding, fix: null };
}

/** Weir works, and the fix improves it. */
export function advice(finding: string, fix: string): Finding {
  return { state: 'advice', finding, fix };
}

/** Weir, or a part of it, does not work until the fix is made. */
export function broken(finding: string, fix: string): Finding {
  return { state: 'problem', finding, fix };
}

/** Like `broken`, for a fault. @param otherwise the fix if the fault states none */
export function brokenBy({ finding, fix }: Fault, otherwise: string): Finding {
  return broken(finding, fix ?? otherwise);
}

/** Null: the check does not apply here. A finding may have a name other than that of its row. */
type Found = NamedFinding | readonly NamedFinding[] | null;
type NamedFinding = Finding & { name?: string };

/** Checks by name, in the order in which an operator should fix what they find. */
export type CheckTable<Context> = Record<string, (context: Context) => Found | Promise<Found>>;

/** Runs the checks of a table one after the other. */
export async function runChecks<Context>(table: CheckTable<Context>, context: Context): Promise<Check[]> {
  const checks: Check[] = [];
  for (const [name, check] of Object.entries(table))
    for (const found of [(await check(context)) ?? []].flat()) checks.push({ name, ...found });
  return checks;
}
