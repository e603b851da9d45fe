/** Conditions as the overview shows them. */
import { type Condition, conditionTable } from '../resources/conditions.ts';
import type { Role } from '../resources/users.ts';
import { ownPage } from './alerts.ts';

interface ConditionCard {
  severity: Condition['severity'];
  title: string;
  detail: string;
  action: string;
  href: string;
  /** The lowest role that can open it. */
  role: Role;
}

export function conditionCard({ kind, severity, text, fix, url }: Condition): ConditionCard {
  return {
    severity,
    title: text.replace(/\.$/, ''),
    detail: fix,
    action: conditionTable[kind].action,
    ...ownPage(url),
  };
}
