/** Messages between the primary and its processes. */
import type { Build } from '../../base/files/build.ts';
import type { GivenSettings } from '../../base/settings/gather.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Checkup } from '../../manage/api/status/doctor.ts';
import type { StartWait } from '../../manage/api/status/health.ts';
import type { Live, Sample, Second } from '../../manage/live/counters.ts';
import type { WebhookRow } from '../../store/queries/webhooks/webhooks.ts';
import type { Horizon } from '../../store/retention/partitions.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';

/**
 * Version of these messages. After an upgrade on disk, HUP starts processes of the new build under the primary of the old one. Increase
 * it with every incompatible change: such a restart is then refused with that reason, and the old processes keep serving.
 */
export const PROTOCOL = 4;

export interface StartOrder {
  settings: Settings;
  conninfo: string;
  keys: SecretsKeys;
  horizon: Horizon;
  /** Folder of this installation's spool. Absent: there is no spool. */
  spoolFolder?: string;
  /** Folder of the sockets for commands. Absent: it cannot be used. */
  runFolder?: string;
  /** With a spool: the webhooks as the primary last read them, newest first. */
  savedWebhooks?: readonly WebhookRow[];
  /** Other processes serve: with a spool, wait for the webhooks before listening. */
  othersServe?: boolean;
  /** The start is not done: the database is not used, not even if it answers, before `database_prepared`. */
  awaitsDatabase?: boolean;
  /** For readyz, with `awaitsDatabase`. */
  awaited?: StartWait;
  /** Longest request to the identity provider, set by tests on a busy machine. Absent: the limit of the provider's module. */
  identityRequestSeconds?: number;
  /** One entry a second for the last minutes, oldest first. */
  history: Second[];
}

/** StartOrder as sent: settings as text, so that another build parses its own settings with its own defaults. */
export type SentOrder = Omit<StartOrder, 'settings'> & { given: GivenSettings };

export type ToProcess =
  | { kind: 'start'; order: SentOrder }
  /** The primary is subscribed to database notifications: caches are valid. */
  | { kind: 'heartbeat' }
  /** Notifications may have been missed. */
  | { kind: 'changes_lost' }
  /** A payload of weir_changes; answered by `applied` with the same number. */
  | { kind: 'change'; number: number; payload: string }
  /** Events were committed by the process `by`: waiting claims check again. */
  | { kind: 'arrived'; by: string }
  | { kind: 'horizon'; horizon: Horizon }
  /** What the start waits for has changed. */
  | { kind: 'awaited'; awaited: StartWait }
  /** The database has a schema for this release and fits the settings: use it. Answered by `applied` when events are stored. */
  | { kind: 'database_prepared'; number: number }
  | { kind: 'collect_metrics'; number: number }
  | { kind: 'take_sample'; number: number }
  /** The counts of the last second over all processes. */
  | { kind: 'live'; live: Live }
  /** Answers `ask_doctor`. */
  | { kind: 'checkup'; checkup: Checkup }
  /** Answers `order`. */
  | { kind: 'ordered'; ticket: number; answer: Control | Refused }
  /** readyz answers 503 from now on; all other requests are served. */
  | { kind: 'leaving' }
  /** Close the listener, answer accepted requests, exit. */
  | { kind: 'drain' };

/** prom-client's JSON of one registry. */
export type MetricsSnapshot = object[];

export type FromProcess =
  | { kind: 'awaiting_order'; protocol: number; build: Build }
  | { kind: 'listening' }
  /** The process cannot serve, and a retry would not help. */
  | { kind: 'refused'; message: string }
  | { kind: 'applied'; number: number }
  | { kind: 'metrics'; number: number; snapshot: MetricsSnapshot }
  | { kind: 'sample'; number: number; sample: Sample }
  /** Requests the results of `weir doctor`; answered by `checkup`. */
  | { kind: 'ask_doctor' }
  /** A command orders this; answered by `ordered` with the same ticket. */
  | { kind: 'order'; ticket: number; order: PrimaryOrder };

/** Show what runs, start a rolling restart, or set the number of processes. */
export type PrimaryOrder = 'show' | 'reload' | number;

export interface Control {
  /** The build of the primary, which a rolling restart does not replace. */
  primary: Build;
  /** How many processes are to serve. */
  wanted: number;
  /** Oldest first. `build`: null until the process has stated it. */
  processes: {
    pid: number;
    state: 'starting' | 'serving' | 'leaving' | 'ended';
    build: Build | null;
    started_at: string;
  }[];
  /** Number of the rolling restart that this order asked for. */
  requested?: number;
  /** The last rolling restart, which may be under way; null: none since the start of Weir. */
  restart: RestartReport | null;
}

/** Why an order was not carried out. */
export interface Refused {
  refused: string;
}

/** Has the primary carry out the order of a command. */
export type GiveOrder = (order: PrimaryOrder) => Promise<Control | Refused>;

/** A rolling restart, for `weir reload`. */
export interface RestartReport {
  number: number;
  state: 'running' | 'restarted' | 'failed';
  /** Settings that differ from those of the processes. */
  changed: string[];
  /** Those of them that only a restart of Weir applies. */
  fixed: string[];
  /** False: no setting comes from `.env`, so none can change. */
  changeable: boolean;
  replaced: number;
  reason?: string;
}
