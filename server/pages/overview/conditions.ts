/** Conditions as the overview shows them: each once, with its alert. */
import type { Condition } from '../../model/condition-list.ts';
import { conditionTable } from '../../model/conditions.ts';
import type { Role } from '../../model/users.ts';
import { field } from '../forms/form.ts';
import { asProblem, type Page, redirect } from '../page.ts';
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
  id: string;
  snoozed: Condition['snoozed'];
}

/** @param alerts active ones */
export function conditionCard(condition: Condition, alerts: readonly ShownAlert[]): ConditionCard {
  const { kind, severity, text, fix, url } = condition;
  return {
    id: condition.id,
    snoozed: condition.snoozed,
    severity,
    title: text.replace(/\.$/, ''),
    detail: fix,
    action: conditionTable[kind].action,
    ...ownPage(url),
    alertSince: alerts.find((alert) => isAbout(alert, condition))?.began_at ?? null,
  };
}

const snoozeCondition: Page = async ({ call, id, form }) => {
  const snoozed = await call('snoozeCondition', { id, input: { for: field(form, 'for') } });
  if (snoozed.kind !== 'done') return asProblem(snoozed);
  return redirect('/', snoozed.body.snoozed === null ? 'woken' : 'snoozed');
};

export const conditionPages = { snoozeCondition };

/** The alerts that no card shows. */
export function otherAlerts(alerts: readonly ShownAlert[], conditions: readonly Condition[]): ShownAlert[] {
  return alerts.filter((alert) => alert.ended_at !== null || !conditions.some((one) => isAbout(alert, one)));
}

function isAbout({ condition, subject }: ShownAlert, { kind, webhook_id, agent_id, name }: Condition): boolean {
  if (condition !== kind) return false;
  return subject.kind === 'machine' ? subject.name === name : subject.id === (webhook_id ?? agent_id);
}
