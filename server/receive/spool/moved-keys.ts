/**
 * Deduplication keys of spooled events whose webhook has moved since. The event is stored in the cell that its id names; its key is compared
 * and stored in the cell that has the webhook's keys now. The key is stored first: if the drain is interrupted before the event is stored,
 * the next attempt finds the key as its own.
 */
import { z } from 'zod';
import { cellNumber } from '../../model/cells.ts';
import { expected } from '../../store/connect/unavailable.ts';
import type { SpooledKey } from './segment.ts';

const elsewhereSchema = z.array(z.object({ webhook: z.guid(), cell: cellNumber, moving: z.boolean() }));
/** A webhook whose keys are not in the cell of its spooled events. `cell`: the cell that has the keys or will get them. */
type Elsewhere = z.output<typeof elsewhereSchema>[number];

/**
 * SQL: webhooks of spooled rows with a key that are not in this cell, or are moving. A webhook that it misses is safe: `storeSql` counts its
 * keys, and the caller rolls back.
 */
export function elsewhereSql(cell: number): string {
  return `
    select coalesce(json_agg(json_build_object('webhook', id, 'cell', webhooks.cell, 'moving', moving_from is not null)), '[]')::text
    from webhooks where ${isElsewhere(cell)} and id in (select webhook_id from pg_temp.spooled where key is not null)`;
}

/** @param lines the answer to `elsewhereSql` */
export function readElsewhere([text]: readonly string[]): Elsewhere[] {
  return expected(elsewhereSchema, text && JSON.parse(text));
}

/** Whether the keys of a row of webhooks are in another cell, or on their way. */
export function isElsewhere(cell: number): string {
  return `(webhooks.cell <> ${cell} or webhooks.moving_from is not null)`;
}

/**
 * Claims keys for their events in a cell, with the keys as JSON, the number of the cell and RETENTION_DAYS as parameters. Returns for each the event
 * and the event that has its key, separated by a space; the latter is empty when the keys of the webhook are not in this cell.
 */
export const claimSql = `
  with given as materialized (
    select webhook, decode(key, 'hex') as key, event, at
    from json_to_recordset($1) g (webhook uuid, key text, event uuid, at timestamptz)
  ), claimed as (
    insert into dedupe_keys as known (webhook_id, key, event_id, expires_at)
    select distinct on (webhook, key) webhook, key, event, now() + make_interval(days => least($3::int, webhooks.retention_days))
    from given join webhooks on webhooks.id = webhook
    where webhooks.cell = $2::int and webhooks.moving_from is null
    order by webhook, key, at, event
    on conflict (webhook_id, key) do update set
      event_id = case when known.expires_at > now() then known.event_id else excluded.event_id end,
      expires_at = case when known.expires_at > now() then known.expires_at else excluded.expires_at end
    returning webhook_id, key, event_id
  )
  select event::text || ' ' || coalesce(event_id::text, '')
  from given left join claimed on webhook_id = webhook and claimed.key = given.key`;

/** Maps each event to the event that has its key. Throws when the keys are not in the cell. @param lines the answer to `claimSql` */
export function readOwners(lines: readonly string[], keys: readonly SpooledKey[], cell: number): Map<string, string> {
  const answered = new Map(lines.map((line) => line.split(' ') as [string, string]));
  return new Map(
    keys.map(({ event }) => {
      const owner = answered.get(event);
      if (owner === '') throw new Error(`a webhook has left cell ${cell}`);
      return [event, expected(z.guid(), owner)];
    }),
  );
}
