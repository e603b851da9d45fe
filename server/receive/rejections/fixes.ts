/** What an operator can change at a webhook, in one step, so that a rejection verifies. */
import type { RejectionFix } from '../../model/rejections.ts';
import type { RejectionReason } from '../../model/signatures/diagnosis/reasons.ts';
import { namedPresets } from '../../model/signatures/diagnosis/schemes.ts';
import { isAsymmetric, isToken } from '../../model/signatures/keys.ts';
import { DEFAULT_SCHEME, presetNamed, presets } from '../../model/signatures/presets.ts';
import type { RejectionRecord } from '../../store/queries/rejections/rejections.ts';

/** Maximum presets offered for one header. A header that more presets use does not identify the sender. */
const SCHEMES_MAX = 12;

/** Reasons for which another secret of the webhook may help. */
const ofSecret: ReadonlySet<RejectionReason> = new Set([
  'digest_differs',
  'secret_mode',
  'secret_space',
  'secret_decoded',
  'previous_secret',
  'other_webhook',
  'body_too_large',
]);

type Rejected = Pick<
  RejectionRecord,
  | 'reason'
  | 'checked_reason'
  | 'header'
  | 'otherwise_valid'
  | 'other_webhook'
  | 'signature_scheme'
  | 'public_key'
  | 'accepted_event_id'
>;

/** Lists the fixes, the most likely first. None when the request verifies or was accepted, or when only the sender can fix it. */
export function fixesOf(rejection: Rejected): RejectionFix[] {
  const { header, otherwise_valid: valid, other_webhook: other, signature_scheme: scheme } = rejection;
  const keyed = isKeyed(rejection);
  const reason = rejection.checked_reason ?? rejection.reason;
  if (rejection.accepted_event_id !== null || reason === 'verifies_now') return [];
  const fixes: RejectionFix[] = [];
  if (reason === 'header_other' && header !== null && scheme === DEFAULT_SCHEME)
    fixes.push({ ...none, kind: 'use_header', title: `Use header ${header}`, header });
  const schemes = schemesOf(reason, header, scheme);
  if (schemes.length > 0) fixes.push(toScheme(schemes, valid));
  if (reason === 'key_kind')
    fixes.push({
      ...none,
      kind: 'set_scheme',
      title: `Paste the sender’s ${keyed ? 'secret' : 'public key'}`,
      schemes: [scheme],
      needs: keyed ? 'secret' : 'public_key',
    });
  if (reason === 'other_webhook' && other !== null)
    fixes.push({ ...none, kind: 'open_webhook', title: `Open ${other.name}`, webhook_id: other.id });
  if (ofSecret.has(reason) && !keyed)
    fixes.push({ ...none, kind: 'set_secret', title: 'Paste the sender’s secret', needs: 'secret' });
  return fixes;
}

const none = { header: null, schemes: [], needs: null, webhook_id: null };

function toScheme(schemes: string[], otherwiseValid: boolean | null): RejectionFix {
  const [first] = schemes as [string];
  const { title, definition } = presetNamed(first)!;
  const needs = isAsymmetric(definition.algorithm) ? 'public_key' : otherwiseValid ? null : 'secret';
  return {
    ...none,
    kind: 'set_scheme',
    title: schemes.length === 1 ? `Set the scheme to ${title}` : 'Set the scheme of the sender',
    schemes,
    needs,
  };
}

/** The schemes that the request may be signed by. */
function schemesOf(reason: RejectionReason, header: string | null, own: string): string[] {
  if (reason === 'scheme_standard_webhooks' && header?.startsWith('svix-')) return ['svix'];
  if (reason === 'scheme_github_sha1') return [];
  const [named] = namedPresets.find(([, of]) => of === reason) ?? [];
  if (named !== undefined) return named === own ? [] : [named];
  if (reason !== 'scheme_other') return [];
  const senders = presets.filter(
    ({ name, definition }) => definition.header === header && name !== own && !isToken(definition.algorithm),
  );
  return senders.length > SCHEMES_MAX ? [] : senders.map(({ name }) => name);
}

/** Whether the webhook verifies with a public key, so that it uses no secret. */
function isKeyed({ signature_scheme: scheme, public_key: key }: Rejected): boolean {
  const preset = presetNamed(scheme);
  if (preset === undefined) return false;
  return isAsymmetric(preset.definition.algorithm) || (preset.publicKeyDefinition !== undefined && key !== null);
}
