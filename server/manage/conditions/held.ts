/** A condition that holds, as it was found and as it is listed. */
import type { Condition } from '../../model/condition-list.ts';
import { type ConditionKind, conditionOf } from '../../model/conditions.ts';

export interface Held {
  kind: ConditionKind;
  /** Undefined: the installation. */
  subject?: { id: string; name: string };
  value?: number;
  threshold?: number | null;
  since?: string;
  /** Why, and what to do about that cause. */
  cause?: string;
  fix?: string;
}

/** The condition with the texts of the table. */
export function described(held: Held, publicUrl: string): Condition {
  const { kind, subject, value, threshold = null, since = null, cause = '' } = held;
  const row = conditionOf(kind);
  return {
    id: row.subject === 'installation' ? kind : `${kind}:${subject!.id}`,
    snoozed: null,
    kind,
    severity: row.severity,
    text: row.text({ name: subject?.name ?? '', value: value ?? 0, threshold, cause }),
    fix: held.fix ?? row.fix,
    url: `${publicUrl}${row.page(subject?.id ?? '')}`,
    webhook_id: row.subject === 'webhook' ? subject!.id : null,
    agent_id: row.subject === 'agent' ? subject!.id : null,
    name: subject?.name ?? null,
    count: row.unit === null || row.unit === 'seconds' ? null : value!,
    expect_every_seconds: kind === 'silent' ? threshold : null,
    since,
  };
}

/** A row about a webhook as the subject of its condition. */
export function webhookOf({
  webhook_id: id,
  name,
}: {
  webhook_id: string;
  name: string;
}): NonNullable<Held['subject']> {
  return { id, name };
}
