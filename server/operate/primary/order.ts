/** The orders of `weir reload` and `weir processes`, which a serving process passes on to the primary, and the answers. */
import type { Build } from '../../base/files/build.ts';

/** Show what runs, start a rolling restart, or set the number of processes. */
export type Order = 'show' | 'reload' | number;

/** What runs. */
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
