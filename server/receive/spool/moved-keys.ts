/**
 * Deduplication keys of spooled events whose webhook has moved since: an event is stored in the cell that its id names, and its key is compared
 * and stored where the keys of the webhook are now. The key is first: if the drain is interrupted before the event is stored, the next attempt
 * finds the key as its own.
 */

/** A spooled event with a key. */
export interface MovedKey {
  webhook: string;
  /** In hex. */
  key: string;
  event: string;
  /** When it was received, as Postgres prints it. */
  at: string;
  /** The cell of the webhook. */
  cell: number;
  moving: boolean;
}

/**
 * The keys among the spooled rows whose webhook is not in this cell, or is moving, as one JSON text. Not to be asked for a row is safe: `storeSql`
 * refuses it.
 */
export function movedKeysSql(cell: number): string {
  return `
    select coalesce(json_agg(json_build_object('webhook', webhook_id, 'key', encode(key, 'hex'), 'event', spooled.id,
      'at', received_at, 'cell', webhooks.cell, 'moving', webhooks.moving_from is not null)), '[]')::text
    from pg_temp.spooled join webhooks on webhooks.id = webhook_id
    where key is not null and ${isElsewhere(cell)}`;
}

/** Whether the keys of a row of webhooks are in another cell, or on their way. */
export function isElsewhere(cell: number): string {
  return `(webhooks.cell <> ${cell} or webhooks.moving_from is not null)`;
}

/**
 * Claims keys for their events in a cell. Returns for each the event and the event that has its key, separated by a space; the latter is empty
 * when the keys of the webhook are not in this cell.
 */
export function claimSql(cell: number, keys: readonly MovedKey[], retentionDays: number): string {
  return `
    with given as materialized (
      select webhook, decode(key, 'hex') as key, event, at
      from json_to_recordset('${JSON.stringify(keys)}') g (webhook uuid, key text, event uuid, at timestamptz)
    ), claimed as (
      insert into dedupe_keys as known (webhook_id, key, event_id, expires_at)
      select distinct on (webhook, key) webhook, key, event,
        now() + make_interval(days => least(${retentionDays}, webhooks.retention_days))
      from given join webhooks on webhooks.id = webhook
      where not ${isElsewhere(cell)}
      order by webhook, key, at, event
      on conflict (webhook_id, key) do update set
        event_id = case when known.expires_at > now() then known.event_id else excluded.event_id end,
        expires_at = case when known.expires_at > now() then known.expires_at else excluded.expires_at end
      returning webhook_id, key, event_id
    )
    select event::text || ' ' || coalesce(event_id::text, '')
    from given left join claimed on webhook_id = webhook and claimed.key = given.key`;
}

/** Removes the rows whose keys belong to other events, and the keys of the others. @param owners event by event, see claimSql */
export function applyClaimsSql(owners: ReadonlyMap<string, string>): string {
  const own = [...owners].filter(([event, owner]) => event === owner).map(([event]) => event);
  const repeated = [...owners].filter(([event, owner]) => event !== owner).map(([event]) => event);
  return `
    delete from pg_temp.spooled where id = any ('{${repeated}}');
    update pg_temp.spooled set key = null where id = any ('{${own}}')`;
}
