/**
 * The table of conditions: what needs a person, from which value on, how it reads, and what to do. Issues, alerts,
 * `weir doctor` and the Prometheus rules take thresholds and texts from here. A condition is *reported* when it has an alert.
 */
import { DEATHS_KEPT, DIED_MINUTES, FULL_WITHIN_DAYS } from './machines.ts';
import { SOME_RETRY } from './signatures/retries.ts';
import { counted, inGib, inWords } from './words.ts';

/** Facts that the sentence about a condition contains. */
interface ConditionFacts {
  /** Name of the subject. */
  name: string;
  /** In the unit of the condition; 0 without one. */
  value: number;
  /** Null: any value is over it. */
  threshold: number | null;
  /** Its cause, where it differs from time to time; empty without one. */
  cause: string;
}

type Sentence = (facts: ConditionFacts) => string;

interface ConditionRow {
  subject: 'agent' | 'webhook' | 'machine' | 'process' | 'cell' | 'installation';
  /** `critical`: senders or agents are affected, act now. `warning`: act today. */
  severity: 'critical' | 'warning';
  /** True: each machine finds the condition from its own state. Absent: it is read from the database. */
  local?: true;
  /**
   * The condition holds from this value on (`at least`) or above it (`more than`), as `meaning` says. Absent: any value. For a setting:
   * its default.
   */
  threshold?: number;
  /** Unit of the value; absent: nothing is counted. */
  unit?: string;
  /** When it holds, as a sentence without a subject, for the guides and the API. */
  meaning: string;
  /** What is wrong, one sentence. */
  text: Sentence;
  /** What to do first. */
  fix: string;
  /** The link to the page where to act; absent: the status. */
  action?: string;
  page: (subjectId: string) => string;
  /** What to look at and what to do, for a Prometheus rule and `weir doctor --alert`. */
  runbook?: string;
  /** Alerts about it. */
  reported?: {
    /** Where alerts differ from the list: threshold and unit, when an alert begins, and its sentence. */
    threshold?: number;
    unit?: string;
    meaning?: string;
    text?: Sentence;
    /** The sentence of an alert that has ended. */
    over: (name: string) => string;
    /** The alert ends when the condition has not held for this long. 0: its source looks back far enough by itself. */
    calmMs: number;
  };
}

/** Default of ALERT_PENDING_SECONDS. */
export const PENDING_SECONDS = 300;
/** An agent that is paused for longer was probably forgotten. */
const PAUSED_SECONDS_MAX = 86_400;
/** Default of ALERT_REJECTIONS_PER_MINUTE. */
const REJECTIONS_PER_MINUTE = 60;
/** Fewer rejections in an hour do not count: scanners and people who test a webhook cause some. */
const REJECTED_MIN = 5;
/** Rejections have ended when none came for this long, and requests verify. */
export const REJECTIONS_QUIET_MS = 300_000;
/** Rate-limited requests in an hour, and their share of all requests of the webhook. Fewer are normal: the limit exists for bursts. */
const LIMITED_MIN = 20;
export const LIMITED_SHARE_MIN = 0.1;
/** A dead letter is new for this long. */
export const DEAD_NEW_MINUTES = 15;
/** An alert ends below this share of the threshold above which it began. */
export const END_RATIO = 0.5;
/** Deliveries that are counted for `expiring`; a larger number is reported as this one and more. */
export const EXPIRING_COUNTED_MAX = 10_000;
/** Days after today that must have partitions. */
export const PARTITIONS_AHEAD_MIN = 2;

/** `: CAUSE`; '' without a cause. */
const because = (cause: string) => (cause === '' ? '' : `: ${cause}`);

export const conditionTable = {
  database: {
    subject: 'installation',
    severity: 'critical',
    local: true,
    meaning: 'Postgres does not commit events: a trial commit, the one of readyz, fails',
    text: ({ cause }) => `Postgres does not commit events: ${cause}.`,
    fix: 'Run weir doctor on the machine; it names the cause and the fix.',
    page: () => '/status#doctor',
    runbook:
      'Run weir doctor on the machine: it states why Postgres cannot be used. Check that Postgres runs, accepts writes (no standby, default_transaction_read_only off) and has free disk space and connections. database_down in the log has the error of libpq. Weir reconnects by itself.',
  },
  spool: {
    subject: 'machine',
    severity: 'critical',
    local: true,
    unit: 'events',
    meaning: 'events that were answered 202 wait in the spool of a machine (INGEST_SPOOL_DIR) for the database',
    text: ({ name, value }) =>
      `The spool of machine ${name} is in use: ${counted(value, 'event')} ${value === 1 ? 'waits' : 'wait'} for the database.`,
    fix: 'They are stored by themselves when Postgres commits again. Run weir doctor on the machine; it names the cause.',
    page: () => '/status',
    runbook:
      'Weir writes them to INGEST_SPOOL_DIR and stores them by itself when Postgres commits again; spool_waiting in the log states why it cannot. See WeirDatabaseDown. When weir_spool_bytes reaches INGEST_SPOOL_BYTES_MAX, or weir_spool_oldest_seconds INGEST_SPOOL_HOURS_MAX, requests are answered 503.',
    reported: {
      over: (name) => `The spool of machine ${name} is empty again.`,
      calmMs: 60_000,
    },
  },
  cell: {
    subject: 'cell',
    severity: 'critical',
    local: true,
    meaning:
      'a cell, a Postgres server beside the first, cannot be used: events of its webhooks are refused or spooled',
    text: ({ name, cause }) => `Cell ${name} cannot be used${cause === '' ? '' : `: ${cause}`}.`,
    fix: 'Requests to its webhooks are refused or spooled; lists lack its events. Run weir doctor on the machine; it names the fix.',
    page: () => '/status#cells',
    reported: {
      unit: 'seconds',
      text: ({ name, value }) => `Cell ${name} has not been usable for ${inWords(value)}.`,
      over: (name) => `Cell ${name} can be used again.`,
      calmMs: 60_000,
    },
  },
  disk: {
    subject: 'machine',
    severity: 'critical',
    local: true,
    unit: 'bytes',
    meaning: `a disk that Weir writes to has less than 1 GiB free (with the embedded Postgres 5 GiB), or will be full within ${FULL_WITHIN_DAYS} days if it fills on as in the last day`,
    text: ({ name, value, cause }) =>
      `The disk of ${name} has ${inGib(value)} free${cause === '' ? '' : `, and will be full in ${cause}`}.`,
    fix: 'Free some space, use a larger disk, or lower RETENTION_DAYS. When it is full, webhook requests are answered 503, unless a spool on another disk takes them.',
    page: () => '/status#doctor',
    runbook:
      'The place names what is on the disk: data (DATA_DIR), spool, archive or postgres (the embedded server). weir webhook usage shows which webhooks store the most. Free some space, use a larger disk, lower RETENTION_DAYS, or move the archive. While it is full, requests are answered 503, or spooled; nothing that was answered 202 is lost.',
    reported: {
      text: ({ name, value }) =>
        `The disk of ${name} has ${inGib(value)} free: that is little, or it will be full within ${FULL_WITHIN_DAYS} days.`,
      over: (name) => `The disk of ${name} has room again.`,
      calmMs: 600_000,
    },
  },
  connections: {
    subject: 'machine',
    severity: 'critical',
    local: true,
    unit: 'connections',
    meaning:
      'connections were closed without a response in the last 5 minutes: a process had CONNECTIONS_MAX of them, or a client address CLIENT_CONNECTIONS_MAX',
    text: ({ name, value }) =>
      `Machine ${name} refused ${counted(value, 'connection')} within 5 minutes: too many were open.`,
    fix: 'connections_limit in the log names the limit and a client. Block a client that floods, put a proxy in front, or raise the limit of open files (LimitNOFILE, ulimit -n) and CONNECTIONS_MAX.',
    page: () => '/status#processes',
  },
  process: {
    subject: 'process',
    severity: 'critical',
    local: true,
    meaning: 'a process does not respond',
    text: ({ name }) => `Process ${name} does not respond.`,
    fix: 'Its requests wait; the other processes serve.',
    page: () => '/status#processes',
  },
  process_died: {
    subject: 'machine',
    severity: 'warning',
    local: true,
    unit: 'processes',
    meaning: `a process of a machine has died in the last ${DIED_MINUTES} minutes: it exited, was killed or hung, and Weir had not ended it`,
    text: ({ name, value, cause }) =>
      `${value >= DEATHS_KEPT ? 'At least ' : ''}${counted(value, 'process', 'processes')} of machine ${name} died within ${DIED_MINUTES} minutes${value === 1 ? '' : ', the last'}: ${cause}.`,
    fix: 'Weir replaces a process by itself. After SIGKILL, look for “Out of memory” in journalctl -k; otherwise process_output in the log has the reason.',
    page: () => '/status#deaths',
  },
  rate_limits: {
    subject: 'installation',
    severity: 'warning',
    local: true,
    meaning: 'the shared rate-limit store does not answer, so requests are allowed without being counted',
    text: () => 'Rate limits are off: the rate-limit store does not answer.',
    fix: 'Requests are accepted without being counted. Check Redis at RATE_LIMIT_SHARED_URL; counting resumes by itself.',
    page: () => '/status#doctor',
    runbook:
      'rate_limit_store in the log has the error. Check Redis at RATE_LIMIT_SHARED_URL (weir doctor tries it). weir_requests_uncounted_total counts the requests that were allowed. Counting resumes by itself.',
  },
  dead_letters: {
    subject: 'agent',
    severity: 'warning',
    unit: 'deliveries',
    meaning: 'an agent has dead letters; one for each reason',
    text: ({ name, value, cause }) => `Agent ${name} has ${counted(value, 'dead letter')}${because(cause)}.`,
    fix: 'The agent used up all attempts. Fix the cause, then replay or dismiss them.',
    action: 'Review',
    page: (id) => `/deliveries?state=dead&agent_id=${id}`,
    runbook:
      'weir delivery dead counts them by reason, weir delivery list --state dead lists them. Fix the agent, then run weir delivery replay --agent ID, or end them with weir delivery dismiss.',
    reported: {
      meaning: `an agent has dead letters less than ${DEAD_NEW_MINUTES} minutes old`,
      text: ({ name, value }) => `Agent ${name} has ${counted(value, 'new dead letter')}.`,
      over: (name) => `Agent ${name} has had no new dead letters for ${DEAD_NEW_MINUTES} minutes.`,
      calmMs: 0,
    },
  },
  pending: {
    subject: 'agent',
    severity: 'warning',
    threshold: PENDING_SECONDS,
    unit: 'seconds',
    meaning: `the oldest pending delivery of an agent has waited for more than ALERT_PENDING_SECONDS (${PENDING_SECONDS}); what a filter has yet to judge does not count`,
    text: ({ name, value, threshold }) =>
      `The oldest pending delivery of agent ${name} has waited for ${inWords(value)} (limit: ${inWords(threshold ?? 0)}).`,
    fix: 'The agent was not started, has stopped, or claims less than arrives. Start it, or more instances of it.',
    action: 'Open the agent',
    page: (id) => `/agents/${id}`,
    runbook:
      'The labels name the agent. Check that it runs and claims: the page Agents shows its last claim, and weir delivery list --agent ID its deliveries. If it does, it is slower than its events arrive: start more instances of it, or raise max of its claims.',
    reported: {
      over: (name) => `The deliveries of agent ${name} no longer wait too long.`,
      calmMs: 60_000,
    },
  },
  paused: {
    subject: 'agent',
    severity: 'warning',
    threshold: PAUSED_SECONDS_MAX,
    unit: 'seconds',
    meaning: 'an agent has been paused for more than a day',
    text: ({ name, value }) => `Agent ${name} has been paused for ${inWords(value)}.`,
    fix: 'Its deliveries wait. Resume it, or revoke it if it is no longer used.',
    action: 'Open the agent',
    page: (id) => `/agents/${id}`,
  },
  held: {
    subject: 'agent',
    severity: 'warning',
    threshold: PENDING_SECONDS,
    unit: 'seconds',
    meaning: `a delivery has waited for more than ALERT_PENDING_SECONDS (${PENDING_SECONDS}) because another one with its key is not finished, and its agent claims others`,
    text: ({ name, value, threshold }) =>
      `A delivery to agent ${name} is held by another one with its key for ${inWords(value)} (limit: ${inWords(threshold ?? 0)}).`,
    fix: 'The first delivery of the key fails again and again, or takes long: its attempts have the reason. Dismiss it, or let it become a dead letter, and the next one is delivered.',
    action: 'Open the held deliveries',
    page: (id) => `/deliveries?agent_id=${id}&held=true`,
  },
  undelivered: {
    subject: 'agent',
    severity: 'warning',
    unit: 'deliveries',
    meaning: 'an agent was revoked with unfinished deliveries',
    text: ({ name, value }) =>
      `Agent ${name} is revoked, and ${counted(value, 'delivery', 'deliveries')} to it ${value === 1 ? 'is' : 'are'} undelivered.`,
    fix: 'Dismiss them, or move them to another agent.',
    action: 'Decide',
    page: (id) => `/agents/${id}#undelivered`,
  },
  rejections: {
    subject: 'webhook',
    severity: 'warning',
    threshold: REJECTED_MIN,
    unit: 'requests',
    meaning: `at least ${REJECTED_MIN} requests to a webhook were rejected in the last hour, until the newest is accepted or verifies now, or requests verify and none was rejected for ${REJECTIONS_QUIET_MS / 60_000} minutes and twice the mean pause between them; one for each reason`,
    text: ({ name, value, cause }) =>
      `${counted(value, 'request')} to webhook ${name} ${value === 1 ? 'was' : 'were'} rejected in the last hour${because(cause)}.`,
    fix: 'Each rejection says why the signature did not verify, and how to fix it.',
    action: 'See why',
    page: (id) => `/rejections?webhook_id=${id}`,
    runbook:
      'weir rejection list shows the rejected requests with reason and fix. After a rotation, a sender may still sign with the old secret: weir webhook rotate ID --overlap-seconds N keeps it valid. Correct requests that were refused can be stored with weir rejection accept.',
    reported: {
      threshold: REJECTIONS_PER_MINUTE,
      unit: 'requests_per_minute',
      meaning: `more than ALERT_REJECTIONS_PER_MINUTE (${REJECTIONS_PER_MINUTE}) requests to a webhook were rejected within a minute`,
      text: ({ name, value, threshold }) =>
        `${counted(value, 'request')} to webhook ${name} ${value === 1 ? 'was' : 'were'} rejected within a minute (limit: ${threshold ?? 0}).`,
      over: (name) => `Requests to webhook ${name} are no longer rejected too often.`,
      calmMs: REJECTIONS_QUIET_MS,
    },
  },
  old_secret: {
    subject: 'webhook',
    severity: 'warning',
    unit: 'seconds',
    meaning:
      'the previous secret of a webhook has verified a request within the last hour, and ends within a day and half of its overlap',
    text: ({ name, value }) =>
      `Webhook ${name} gets requests signed with its old secret, which ends in ${inWords(value)}.`,
    fix: 'Give the sender the new secret before then; requests signed with the old one are refused afterwards.',
    action: 'Open the secret',
    page: (id) => `/webhooks/${id}/secret`,
  },
  limited: {
    subject: 'webhook',
    severity: 'warning',
    threshold: LIMITED_MIN,
    unit: 'requests',
    meaning: `at least ${LIMITED_MIN} requests to a webhook, and ${LIMITED_SHARE_MIN * 100} % of them, were rate limited in the last hour`,
    text: ({ name, value }) =>
      `${counted(value, 'request')} to webhook ${name} ${value === 1 ? 'was' : 'were'} rate limited in the last hour.`,
    fix: `${SOME_RETRY} Raise the rate limit of the webhook if they are wanted.`,
    action: 'Open the webhook',
    page: (id) => `/webhooks/${id}`,
  },
  failing: {
    subject: 'webhook',
    severity: 'warning',
    threshold: 1,
    unit: 'requests',
    meaning:
      'all requests to an enabled webhook in the last hour were refused: rejected, rate limited, or answered 411, 413 or 503',
    text: ({ name, value }) =>
      `No request to webhook ${name} was accepted in the last hour; ${counted(value, 'request')} ${value === 1 ? 'was' : 'were'} refused.`,
    fix: 'The page of the webhook lists why, by status, with the fix of each.',
    action: 'Open the webhook',
    page: (id) => `/webhooks/${id}`,
  },
  silent: {
    subject: 'webhook',
    severity: 'warning',
    unit: 'seconds',
    meaning:
      'a webhook has had no event for its expect_every_seconds or, without it, for twice its longest pause of the last seven days',
    text: ({ name, value, threshold }) =>
      `Webhook ${name} has received no event for ${inWords(value)} (${threshold === null ? 'more than twice its longest pause in seven days' : `expected: one every ${inWords(threshold)}`}).`,
    fix: 'Check that the sender runs and has the URL of the webhook.',
    action: 'Check the webhook',
    page: (id) => `/webhooks/${id}`,
    reported: {
      meaning: 'a webhook has had no event for its expect_every_seconds',
      over: (name) => `Webhook ${name} receives events again, or no longer expects any.`,
      calmMs: 3_600_000,
    },
  },
  filter: {
    subject: 'agent',
    severity: 'warning',
    unit: 'filters',
    meaning:
      'filters of an agent are not valid in this version, or suspended because they took too long, so that all events are delivered',
    text: ({ name, value, cause }) =>
      `${counted(value, 'filter')} of agent ${name} ${value === 1 ? 'does' : 'do'} not judge, so all events are delivered: ${cause}.`,
    fix: 'Change the filter; the page of the agent says what is wrong.',
    action: 'Open the agent',
    page: (id) => `/agents/${id}`,
  },
  expiring: {
    subject: 'installation',
    severity: 'critical',
    unit: 'deliveries',
    meaning: 'retention removes pending or leased deliveries within a day',
    text: ({ value }) =>
      `Retention removes ${value >= EXPIRING_COUNTED_MAX ? 'at least ' : ''}${counted(value, 'undelivered event')} within a day.`,
    fix: 'No agent has settled them. Start the agents, or raise KEEP_UNDELIVERED_DAYS or RETENTION_DAYS.',
    action: 'See them',
    page: () => '/deliveries?state=pending',
  },
  archive: {
    subject: 'installation',
    severity: 'warning',
    unit: 'tables',
    meaning: 'days could not be written to ARCHIVE_DIR',
    text: ({ value }) => `${counted(value, 'table')} of old days cannot be archived.`,
    fix: 'They stay on disk until ARCHIVE_DIR can be written; archive_failed in the log has the reason.',
    page: () => '/status#doctor',
  },
} as const satisfies Record<string, ConditionRow>;

export type ConditionKind = keyof typeof conditionTable;
export const conditionKinds = Object.keys(conditionTable) as ConditionKind[];

/** A row without the literal types of its values. */
export const conditionOf = (kind: ConditionKind): ConditionRow => conditionTable[kind];

/** The conditions that have alerts. */
export type ReportedKind = {
  [Kind in ConditionKind]: (typeof conditionTable)[Kind] extends { reported: object } ? Kind : never;
}[ConditionKind];
export const reportedKinds = conditionKinds.filter((kind) => 'reported' in conditionTable[kind]) as ReportedKind[];
type Report = NonNullable<ConditionRow['reported']> & { meaning: string; text: Sentence; unit: string };
/** What alerts say about a condition. */
export function reportOf(kind: ReportedKind): Report {
  const { meaning, text, unit = '', reported } = conditionOf(kind);
  return { meaning, text, unit, ...reported! };
}

/** The text of the link to `page`. */
export const actionOf = (kind: ConditionKind): string => conditionOf(kind).action ?? 'Open the status';
