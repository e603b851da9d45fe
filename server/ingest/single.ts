/** POST /in/{webhook_id}: stores the body as one event. */
import { uuidText, uuidv7Time } from '../db/ids.ts';
import type { Exchange } from '../http/exchange.ts';
import { Stage } from '../telemetry/stages.ts';
import { dedupeKey, dedupeValue } from './dedupe.ts';
import { refuseStore, type Store, type StoreParts } from './store.ts';
import type { Webhook } from './webhook.ts';

export function storeSingle({ rows, writer, dedupeWriter, onStored }: StoreParts): Store {
  return async (exchange, webhook, body) => {
    const value = dedupeValue(exchange, webhook);
    const row = rows.one(exchange, webhook, body);
    if (value === null) {
      const outcome = await writer.add(row);
      exchange.lap(Stage.commit);
      if (outcome.kind !== 'committed') return refuseStore(exchange, outcome);
      onStored(webhook, row.receivedAtMs);
      return answer(exchange, 202, webhook, uuidText(row.id), body.length, '');
    }
    const outcome = await dedupeWriter.addAll([{ ...row, key: dedupeKey(value) }]);
    exchange.lap(Stage.commit);
    if (outcome.kind !== 'stored') return refuseStore(exchange, outcome);
    const eventId = outcome.eventIds[0]!;
    if (eventId !== uuidText(row.id)) return answer(exchange, 200, webhook, eventId, body.length, ',"duplicate":true');
    onStored(webhook, row.receivedAtMs);
    answer(exchange, 202, webhook, eventId, body.length, '');
  };
}

/** @param bodyBytes of this request; the stored event of a duplicate may have another size. */
function answer(exchange: Exchange, status: number, webhook: Webhook, id: string, bodyBytes: number, more: string) {
  exchange.eventId = id;
  const receivedAt = uuidv7Time(id);
  exchange.answer(
    status,
    'application/json',
    `{"id":"${id}","webhook_id":"${webhook.id}","received_at":"${receivedAt}","bytes":${bodyBytes}${more}}`,
  );
}
