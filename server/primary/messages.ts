/** What the primary and its processes say to each other. */

import type { Horizon } from '../db/partitions.ts';
import type { Checkup } from '../doctor/ask.ts';
import type { Live, Sample, Second } from '../live/counters.ts';
import type { SecretsKeys } from '../secrets/keys.ts';
import type { Given, Settings } from '../settings/read.ts';

export type { Checkup } from '../doctor/ask.ts';

/**
 * Version of these messages. After an upgrade on disk, HUP starts processes of the new build under the primary of the old one. Raise it
 * with every change that the other side would misread: such a restart is then refused with that reason, and the old processes serve on.
 */
export const PROTOCOL = 2;

/** All that a process needs to serve. */
export interface StartOrder {
  settings: Settings;
  conninfo: string;
  keys: SecretsKeys;
  horizon: Horizon;
  /** The last minutes, oldest first. */
  history: Second[];
}

/** The same between the two: settings as they were written, so that another build reads its own settings, with its own defaults. */
export type SentOrder = Omit<StartOrder, 'settings'> & { given: Given };

export type ToProcess =
  | { kind: 'start'; order: SentOrder }
  /** The primary listens to the database: caches may be believed. */
  | { kind: 'heard' }
  /** Notifications may have been missed. */
  | { kind: 'changes_lost' }
  /** A payload of weir_changes; answered by `applied` with the same number. */
  | { kind: 'change'; number: number; payload: string }
  /** Events were committed somewhere: claims that wait may look. */
  | { kind: 'arrived' }
  | { kind: 'horizon'; horizon: Horizon }
  | { kind: 'collect_metrics'; number: number }
  | { kind: 'take_sample'; number: number }
  /** The second that just went by, on all processes. */
  | { kind: 'live'; live: Live }
  /** Answers `ask_doctor`. */
  | { kind: 'checkup'; ticket: number; checkup: Checkup }
  /** readyz says 503 from now on; all is served. */
  | { kind: 'leaving' }
  /** Close the listener, answer what was accepted, end. */
  | { kind: 'drain' };

/** prom-client's JSON of one registry. */
export type MetricsSnapshot = object[];

export type FromProcess =
  | { kind: 'awaiting_order'; protocol: number }
  | { kind: 'listening' }
  /** It cannot serve, and trying again would not help. */
  | { kind: 'refused'; message: string }
  | { kind: 'applied'; number: number }
  | { kind: 'metrics'; number: number; snapshot: MetricsSnapshot }
  | { kind: 'sample'; number: number; sample: Sample }
  /** What `weir doctor` says; answered by `checkup` with the same ticket. */
  | { kind: 'ask_doctor'; ticket: number };
