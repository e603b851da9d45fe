/** Times as input. */
import { z } from 'zod';

const hasZone = /(?:Z|[+-]\d\d:?\d\d)$/i;
/** The range of years with four digits in ISO 8601, which is what Postgres reads. */
const YEAR_1_MS = Date.parse('0001-01-01T00:00:00Z');
const YEAR_10000_MS = Date.parse('+010000-01-01T00:00:00Z');

/** ISO 8601, UTC without a zone; to the millisecond, like the times that Weir returns. */
export const instant = z.iso
  .datetime({ offset: true, local: true, error: 'Give a time, such as 2026-01-31T12:00:00Z.' })
  .transform((text) => Date.parse(hasZone.test(text) ? text : `${text}Z`))
  .refine((ms) => ms >= YEAR_1_MS && ms < YEAR_10000_MS, 'Give a time from year 1 to 9999.')
  .transform((ms) => new Date(ms).toISOString());
