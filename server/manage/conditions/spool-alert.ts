/**
 * The alert about the spool of this machine. It begins while the database is away, so it is kept in a file in DATA_DIR, sent from there,
 * and stored when the database is back. The file stays as long as the alert is active: a later outage then begins no other alert.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from '../../base/files/durable-file.ts';
import { isoTime } from '../../store/ids.ts';
import type { AlertRow, CarriedAlert } from '../../store/queries/alerts/alerts.ts';
import { alertBody } from './describe.ts';
import { newAlert } from './evaluate.ts';
import { type Posted, type PostSettings, postAlert, retryMs } from './post.ts';
import type { MachineSpool } from './reported.ts';

const RETRY = { firstMs: 5_000, maxMs: 600_000 };

/** Null: the database has the alert. */
type Saved = CarriedAlert | null;

export class SpoolAlert {
  readonly #path: string;
  /** Undefined: no alert is active. */
  #saved: Saved | undefined;
  #sending = false;
  #attempts = 0;
  #nextAttemptMs = 0;

  constructor(dataDir: string) {
    this.#path = join(dataDir, 'spool-alert.json');
    this.#saved = readSaved(this.#path);
  }

  /** Call while the database is away. Returns the alert if it begins; null: it is active, or the spool is empty. Throws errors of fs. */
  begin(spool: MachineSpool, publicUrl: string, nowMs: number): AlertRow | null {
    if (this.#saved !== undefined || spool.events === 0) return null;
    const since = isoTime(spool.oldestMs ?? nowMs);
    const alert = newAlert({ kind: 'spool', subject: spool, since, value: spool.events, threshold: null }, nowMs);
    const body = alertBody('alert.began', alert, publicUrl, nowMs);
    this.#attempts = 0;
    this.#nextAttemptMs = 0;
    this.#save({ alert, request: { id: randomUUID(), body }, sent: false });
    return alert;
  }

  /** The alert that the database does not have yet; null also while its request is being sent. */
  get carried(): CarriedAlert | null {
    return this.#sending ? null : (this.#saved ?? null);
  }

  /** Call once the database has stored `carried`. @param isActive whether the database has an active alert about the spool of this machine */
  recorded(isActive: boolean): void {
    if (this.#sending) return;
    if (isActive && this.#saved !== null) this.#save(null);
    if (isActive || this.#saved === undefined) return;
    rmSync(this.#path, { force: true });
    this.#saved = undefined;
  }

  /** Sends the request of an alert that the database does not have yet, if it is due. Null: nothing was due. */
  async send(
    settings: PostSettings & { ALERT_URL: string },
    nowMs: number,
    signal: AbortSignal,
  ): Promise<Posted | null> {
    const carried = this.carried;
    if (carried === null || carried.sent || nowMs < this.#nextAttemptMs) return null;
    this.#sending = true;
    try {
      const posted = await postAlert(settings, carried.request, nowMs, { signal });
      if (posted.kind === 'sent') this.#save({ ...carried, sent: true });
      else this.#nextAttemptMs = nowMs + retryMs(posted, this.#attempts++, RETRY);
      return posted;
    } finally {
      this.#sending = false;
    }
  }

  /** Flushed, so that a power cut does not make a second alert. */
  #save(saved: Saved): void {
    replaceFile(this.#path, JSON.stringify(saved));
    this.#saved = saved;
  }
}

/** Undefined when no alert can be read. */
function readSaved(path: string): Saved | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Saved;
  } catch {
    return undefined;
  }
}
