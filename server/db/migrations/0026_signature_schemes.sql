-- Signature schemes of senders: how the requests of a webhook are signed.

alter table webhooks
  add column signature_scheme text not null default 'sha256' check (signature_scheme ~ '^[a-z0-9-]{1,64}$'),
  add column scheme_definition jsonb,
  add column tolerance_seconds integer check (tolerance_seconds between 0 and 31536000),
  add column public_key text check (length(public_key) between 1 and 2000),
  add column verify_token bytea,
  add constraint webhooks_scheme_definition_check check ((signature_scheme = 'custom') = (scheme_definition is not null));
comment on column webhooks.signature_scheme is 'Name of a preset (signatures/presets.ts), or custom.';
comment on column webhooks.scheme_definition is 'The definition of a custom scheme; null: that of the preset.';
comment on column webhooks.tolerance_seconds is
  'How far the time of a request may be from the clock of the server; 0: not checked. Null: the tolerance of the scheme.';
comment on column webhooks.public_key is 'The public key of the sender, as given; null: the scheme uses a secret.';
comment on column webhooks.verify_token is 'The token of a GET handshake, sealed for the webhook id and verify_token; null: none.';

drop trigger webhooks_announce on webhooks;
create trigger webhooks_announce
  after insert or delete
    or update of name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days,
      signature_scheme, scheme_definition, tolerance_seconds, public_key, verify_token, updated_at, deleted_at
  on webhooks for each row execute function announce_webhook('id');
comment on trigger webhooks_announce on webhooks is 'All columns except last_event_at and events_removed_before.';

alter table rejections add column url text check (length(url) <= 8192);
comment on column rejections.url is 'The URL that the sender signed, for schemes that sign it; null: the scheme does not.';

alter domain rejection_reason drop constraint rejection_reason_check;
alter domain rejection_reason add constraint rejection_reason_check check (
  value in (
    'header_missing', 'header_other', 'header_repeated', 'secret_sent', 'malformed_empty', 'malformed_no_prefix',
    'malformed_prefix', 'malformed_around', 'malformed_base64', 'malformed_algorithm', 'malformed_length', 'malformed',
    'signature_encoding', 'clock_apart', 'previous_secret', 'other_webhook', 'secret_space', 'secret_decoded', 'secret_undecoded',
    'secret_unset', 'secret_mode', 'not_hmac', 'url_differs', 'body_empty', 'body_line_end', 'body_trimmed', 'body_line_breaks',
    'body_reencoded', 'body_form_decoded', 'body_charset', 'digest_differs', 'body_too_large', 'scheme_stripe', 'scheme_slack',
    'scheme_zoom', 'scheme_standard_webhooks', 'scheme_shopify', 'scheme_paddle', 'scheme_github_sha1', 'scheme_gitlab',
    'scheme_twilio', 'scheme_ed25519', 'scheme_other', 'verifies_now'
  ));
