/** Times as they leave the database for people: ISO 8601 in UTC, to the millisecond. */

/** @param column an expression of ours of type timestamptz. */
export function isoText(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}
