/** Conditions as the overview shows them: each once, with its alert. */
import { type Condition, conditionTable } from '../resources/conditions.ts';
import type { Role } from '../resources/users.ts';
import { ownPage, type ShownAlert } from './alerts.ts';

interface ConditionCard {
  severity: Condition['severity'];
  title: string;
  detail: string;
  action: string;
  href: string;
  /** The lowest role that can open it. */
  role: Role;
  /** When the alert about it began; null: it has none. */
  alertSince: string | null;
}

/** @param alerts active ones */
export function conditionCard(condition: Condition, alerts: readonly ShownAlert[]): ConditionCard {
  const { kind, severity, text, fix, url } = condition;
  return {
    severity,
    title: text.replace(/\.$/, ''),
    detail: fix,
    action: conditionTable[kind].action,
    ...ownPage(url),
    alertSince: alerts.find((alert) => isAbout(alert, condition))?.began_at ?? null,
  };
}

/** The alerts that no card shows. */
export function otherAlerts(alerts: readonly ShownAlert[], conditions: readonly Condition[]): ShownAlert[] {
  return alerts.filter((alert) => alert.ended_at !== null || !conditions.some((one) => isAbout(alert, one)));
}

function isAbout({ condition, subject }: ShownAlert, { kind, webhook_id, agent_id, name }: Condition): boolean {
  if (condition !== kind) return false;
  return subject.kind === 'machine' ? subject.name === name : subject.id === (webhook_id ?? agent_id);
}
