-- One reason more: the signature is that of another webhook. And REJECTION_BODY_BYTES_MAX says how much of a body is kept.

alter domain rejection_reason drop constraint rejection_reason_check;
-- Mirrors signatures/diagnosis/reasons.ts.
alter domain rejection_reason add constraint rejection_reason_check check (
  value in (
    'header_missing', 'header_other', 'header_repeated', 'secret_sent', 'malformed_empty', 'malformed_no_prefix',
    'malformed_prefix', 'malformed_around', 'malformed_base64', 'malformed_algorithm', 'malformed_length',
    'malformed', 'previous_secret', 'other_webhook', 'secret_space', 'secret_decoded', 'secret_unset', 'not_hmac',
    'body_empty', 'body_line_end', 'body_trimmed', 'body_line_breaks', 'body_reencoded', 'body_form_decoded',
    'body_charset', 'digest_differs', 'body_too_large', 'scheme_stripe', 'scheme_slack', 'scheme_zoom',
    'scheme_standard_webhooks', 'scheme_shopify', 'scheme_paddle', 'scheme_github_sha1', 'scheme_gitlab',
    'scheme_twilio', 'scheme_ed25519', 'verifies_now'
  ));

alter table rejections
  add column other_webhook_id uuid references webhooks (id) on delete set null,
  drop constraint rejections_body_check,
  add constraint rejections_body_check check (length(body) <= 1048576);
comment on column rejections.other_webhook_id is 'Whose secret signed it, where that was found out.';
comment on column rejections.body is 'Null: larger than REJECTION_BODY_BYTES_MAX, or it held a secret.';

-- The webhooks changed last are those that a sender may have mixed up.
create index webhooks_changed on webhooks (updated_at) where deleted_at is null;
