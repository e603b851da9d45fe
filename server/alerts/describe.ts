/** An alert as people and programs read it: a sentence, and the page where to act. */
import type { z } from 'zod';
import type { AlertRow } from '../db/queries/alerts.ts';
import { type alertSchema, type Condition, conditions } from '../resources/alerts.ts';

type Described = Omit<z.input<typeof alertSchema>, 'requests'>;

/** @param publicUrl PUBLIC_URL */
export function describeAlert(alert: AlertRow, publicUrl: string): Described {
  const { id, condition, subject_id, subject_name, since, began_at, ended_at, value, threshold } = alert;
  return {
    id,
    condition,
    subject: { kind: conditions[condition].subject, id: subject_id, name: subject_name },
    text: ended_at === null ? begun[condition](alert) : `${over[condition](alert)} ${lasted(began_at, ended_at)}`,
    since,
    began_at,
    ended_at,
    value,
    threshold,
    unit: conditions[condition].unit,
    url: `${publicUrl}${pages[condition](subject_id)}`,
  };
}

type Sentence = (alert: AlertRow) => string;

const begun: Record<Condition, Sentence> = {
  pending: ({ subject_name, value, threshold }) =>
    `The oldest pending delivery of agent ${subject_name} has waited for ${inWords(value)} (limit: ${inWords(threshold ?? 0)}).`,
  dead_letters: ({ subject_name, value }) => `Agent ${subject_name} has ${counted(value, 'new dead letter')}.`,
  rejections: ({ subject_name, value, threshold }) =>
    `${counted(value, 'request')} to webhook ${subject_name} ${value === 1 ? 'was' : 'were'} rejected within a minute (limit: ${threshold ?? 0}).`,
  silent: ({ subject_name, value, threshold }) =>
    `Webhook ${subject_name} has received no event for ${inWords(value)} (expected: one every ${inWords(threshold ?? 0)}).`,
  spool: ({ subject_name, value }) =>
    `The spool of machine ${subject_name} is in use: ${counted(value, 'event')} ${value === 1 ? 'waits' : 'wait'} for the database.`,
};

const over: Record<Condition, Sentence> = {
  pending: ({ subject_name }) => `The deliveries of agent ${subject_name} no longer wait too long.`,
  dead_letters: ({ subject_name }) => `Agent ${subject_name} has no new dead letters any more.`,
  rejections: ({ subject_name }) => `Requests to webhook ${subject_name} are no longer rejected too often.`,
  silent: ({ subject_name }) => `Webhook ${subject_name} receives events again, or no longer expects any.`,
  spool: ({ subject_name }) => `The spool of machine ${subject_name} is empty again.`,
};

const pages: Record<Condition, (subjectId: string) => string> = {
  pending: (id) => `/agents/${id}`,
  dead_letters: (id) => `/deliveries?state=dead&agent_id=${id}`,
  rejections: (id) => `/rejections?webhook_id=${id}`,
  silent: (id) => `/webhooks/${id}`,
  spool: () => '/status',
};

function lasted(beganAt: string, endedAt: string): string {
  return `The alert lasted ${inWords((Date.parse(endedAt) - Date.parse(beganAt)) / 1000)}.`;
}

const spans = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

/** `90 seconds`, `2 minutes`, `3 hours`: in the largest unit of which there are at least two, rounded down. */
function inWords(seconds: number): string {
  for (const [unit, length] of spans) {
    if (seconds === length) return counted(1, unit);
    if (seconds >= 2 * length) return counted(Math.floor(seconds / length), unit);
  }
  return counted(Math.floor(seconds), 'second');
}

function counted(value: number, one: string): string {
  return `${value} ${one}${value === 1 ? '' : 's'}`;
}
