/** What each machine knows of itself: the disks that Weir writes to, and the serving processes that died. */
import { z } from 'zod';
import { timeOf, whole } from './fields.ts';

const GIB = 2 ** 30;

/** Places that Weir writes to: with fewer free bytes their disk is low. The embedded server keeps up to 4 GB of WAL (max_wal_size). */
export const diskPlaces = { data: GIB, spool: GIB, archive: GIB, postgres: 5 * GIB } as const;
export type DiskPlace = keyof typeof diskPlaces;
/** A disk that is full this soon is low. */
export const FULL_WITHIN_DAYS = 3;

export const diskSchema = z.object({
  place: z
    .enum(Object.keys(diskPlaces) as [DiskPlace, ...DiskPlace[]])
    .describe('DATA_DIR, INGEST_SPOOL_DIR, ARCHIVE_DIR, or the data of the embedded Postgres'),
  file_system: z.string().describe('id of its file system: equal for places on one disk'),
  free_bytes: z.number().describe('bytes that Weir can still write'),
  full_in_seconds: z
    .number()
    .nullable()
    .describe(
      'time until it is full if it fills on as in the last day; null: it does not fill, or less than an hour of it is known',
    ),
});
export type DiskState = z.infer<typeof diskSchema>;

export interface LowDisk {
  /** The first place, for an id. */
  place: DiskPlace;
  /** `data and postgres` */
  places: string;
  freeBytes: number;
  fullInSeconds: number | null;
}

/** The disks that are low, each once. */
export function lowDisks(states: readonly DiskState[]): LowDisk[] {
  const disks = [...new Set(states.map(({ file_system }) => file_system))];
  return disks.flatMap((disk) => {
    const on = states.filter(({ file_system }) => file_system === disk);
    const [{ place, free_bytes: freeBytes, full_in_seconds: fullInSeconds }] = on as [DiskState];
    return on.some(isLow)
      ? [{ place, places: on.map((one) => one.place).join(' and '), freeBytes, fullInSeconds }]
      : [];
  });
}

function isLow({ place, free_bytes, full_in_seconds }: DiskState): boolean {
  return free_bytes < diskPlaces[place] || (full_in_seconds ?? Number.POSITIVE_INFINITY) < FULL_WITHIN_DAYS * 86_400;
}

/** Deaths that are kept, the newest. */
export const DEATHS_KEPT = 20;
/** A condition names a death for this long. */
export const DIED_MINUTES = 60;

/** A serving process that died: it exited, was killed, or hung, and Weir had not ended it. */
const deathSchema = z.object({
  at: timeOf('when it ended'),
  pid: whole.describe('process id'),
  reason: z.string().describe('signal that ended it, exit code, or why Weir killed it'),
  ran_ms: whole.describe('how long it had run'),
  recovered_ms: whole
    .nullable()
    .describe('how long it took until all processes served again; 0: all served; null: not yet'),
});
export type ProcessDeath = z.output<typeof deathSchema>;

export const processDeathsSchema = z
  .object({
    total: whole.describe('since the start of Weir on this machine'),
    newest: z.array(deathSchema).describe(`the last ${DEATHS_KEPT}, newest first`),
  })
  .describe('processes of this machine that exited, were killed or hung, and that Weir had not ended');
export type ProcessDeaths = z.output<typeof processDeathsSchema>;

export const noDeaths: ProcessDeaths = { total: 0, newest: [] };
