/** Counts the results of `weir consume` and formats them. */

/** The `--json` document. */
export interface ConsumeSummary {
  claimed: number;
  /** Acknowledged. */
  done: number;
  /** Refused: delivered again, or moved to the dead letters. */
  failed: number;
  /** Leases lost before the delivery was settled; these deliveries come again. */
  gone: number;
  /** Claimed, but in none of the states above: their leases expire, and they come again. */
  unsettled: number;
  last_error: string | null;
  seconds: number;
}

export class ConsumeTally {
  claimed = 0;
  done = 0;
  failed = 0;
  gone = 0;
  /** Deliveries being processed. */
  running = 0;
  lastError: string | null = null;

  /** Done or failed; `--max` counts these. */
  get settled(): number {
    return this.done + this.failed;
  }

  get unsettled(): number {
    return this.claimed - this.settled - this.gone;
  }

  summary(elapsedMs: number): ConsumeSummary {
    const { claimed, done, failed, gone, unsettled, lastError } = this;
    const seconds = Number((elapsedMs / 1000).toFixed(3));
    return { claimed, done, failed, gone, unsettled, last_error: lastError, seconds };
  }
}

/** Formats the summary as one line of text. */
export function describeConsumed({ claimed, done, failed, gone, unsettled, seconds }: ConsumeSummary): string {
  const parts = [`${whole(done)} done`];
  if (failed > 0) parts.push(`${whole(failed)} failed`);
  if (gone > 0) parts.push(`${whole(gone)} lost their lease`);
  if (unsettled > 0) parts.push(`${whole(unsettled)} not settled`);
  return `${whole(claimed)} ${claimed === 1 ? 'delivery' : 'deliveries'} in ${seconds} s: ${parts.join(', ')}\n`;
}

/** The status line of a terminal. */
export function progressLine({ claimed, running, done, failed, lastError }: ConsumeTally): string {
  const counts = `claimed ${whole(claimed)}, running ${whole(running)}, done ${whole(done)}, failed ${whole(failed)}`;
  return lastError === null ? counts : `${counts}; last error: ${lastError}`;
}

function whole(value: number): string {
  return value.toLocaleString('en-GB');
}
