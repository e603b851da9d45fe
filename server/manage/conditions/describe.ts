/** An alert as people and programs read it: a sentence, and the page where to act. */
import type { z } from 'zod';
import type { alertSchema } from '../../model/alerts.ts';
import { conditionOf, counted, inWords, reportOf } from '../../model/conditions.ts';
import type { AlertRow } from '../../store/queries/alerts/alerts.ts';

type Described = Omit<z.input<typeof alertSchema>, 'requests'>;

/** @param publicUrl PUBLIC_URL */
export function describeAlert(alert: AlertRow, publicUrl: string): Described {
  const { id, condition, subject_id, subject_name, since, began_at, ended_at, value, threshold, undelivered } = alert;
  const { subject, page } = conditionOf(condition);
  const report = reportOf(condition);
  const facts = { name: subject_name, value, threshold, cause: '' };
  return {
    id,
    condition,
    subject: { kind: subject as Described['subject']['kind'], id: subject_id, name: subject_name },
    text:
      ended_at === null
        ? report.text(facts)
        : `${typeof undelivered !== 'number' ? report.over(subject_name) : revoked(subject_name, undelivered)} ${lasted(began_at, ended_at)}`,
    since,
    began_at,
    ended_at,
    value,
    threshold,
    unit: report.unit,
    url: `${publicUrl}${page(subject_id)}`,
  };
}

/** A revoked agent solves nothing. */
function revoked(name: string, undelivered: number): string {
  return `Agent ${name} is revoked, ${counted(undelivered, 'delivery', 'deliveries')} undelivered.`;
}

function lasted(beganAt: string, endedAt: string): string {
  return `The alert lasted ${inWords((Date.parse(endedAt) - Date.parse(beganAt)) / 1000)}.`;
}
