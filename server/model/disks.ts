/** The disks that Weir writes to: how much is free, and when that needs a person. */
import { z } from 'zod';

const GIB = 2 ** 30;

/** What is written, and the free bytes below which its disk is low. The embedded server keeps up to max_wal_size (4 GB) of WAL beside the data. */
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
