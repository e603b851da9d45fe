import { expect, test } from 'vitest';
import { lowDisks } from '../../server/model/machines.ts';

const GIB = 2 ** 30;
const disk = (
  place: 'data' | 'spool' | 'archive' | 'postgres',
  gib: number,
  days: number | null = null,
  on = place,
) => ({
  place,
  file_system: on,
  free_bytes: gib * GIB,
  full_in_seconds: days === null ? null : days * 86_400,
});

test('a disk is low below the bytes of any place on it, or when it fills soon, and is named once', () => {
  const low = (...disks: Parameters<typeof lowDisks>[0]) => lowDisks(disks).map(({ places }) => places);
  expect(low(disk('data', 1), disk('postgres', 5), disk('spool', 2, 3))).toEqual([]);
  expect(low(disk('data', 0.9), disk('postgres', 4.9), disk('spool', 500, 2.9))).toEqual(['data', 'postgres', 'spool']);
  // Enough for the files of DATA_DIR, too little for the server beside them.
  expect(low(disk('data', 4), disk('postgres', 4, null, 'data'), disk('archive', 9))).toEqual(['data and postgres']);
});
