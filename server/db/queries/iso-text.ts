/** Timestamps formatted for users: ISO 8601 in UTC, with milliseconds. */

/** @param column a trusted SQL expression of type timestamptz. */
export function isoText(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}
