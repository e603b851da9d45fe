/** The secrets and settings with which rejections are checked again. */
import type { SchemeSettings } from '../../../model/signatures/presets.ts';
import type { Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';

interface KeyringRow extends SchemeSettings {
  id: string;
  publicKey: string | null;
  sealed: { hex: string; expired: boolean }[];
}

/**
 * Reads the keyrings of these webhooks and of the `othersMax` most recently changed ones; deleted webhooks are omitted. Sealed secrets
 * are listed current first and include expired ones.
 */
export function readKeyringRows(query: Query, webhookIds: readonly string[], othersMax: number): Promise<KeyringRow[]> {
  return query({
    name: 'read-keyrings',
    text: `
      select w.id, w.signature_scheme as "signatureScheme", w.scheme_definition as "schemeDefinition",
        w.tolerance_seconds as "toleranceSeconds", w.public_key as "publicKey", w.signature_header as "signatureHeader",
        coalesce(json_agg(json_build_object('hex', encode(s.sealed, 'hex'),
          'expired', coalesce(s.expires_at <= now(), false)) order by s.slot) filter (where s.webhook_id is not null), '[]') as sealed
      from webhooks w left join webhook_secrets s on s.webhook_id = w.id
      where w.deleted_at is null and (w.id = any ($1::uuid[])
        or w.id = any (array(select id from webhooks where deleted_at is null order by updated_at desc limit $2)))
      group by w.id`,
    values: [arrayOf(webhookIds), othersMax],
  });
}
