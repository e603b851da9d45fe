-- Samples of requests whose signature was refused, with the reason; a ring, bounded in count and bytes (queries/rejections.ts).

-- Mirrors signatures/diagnosis/reasons.ts.
create domain rejection_reason as text check (
  value in (
    'header_missing', 'header_other', 'header_repeated', 'secret_sent', 'malformed_empty', 'malformed_no_prefix',
    'malformed_prefix', 'malformed_around', 'malformed_base64', 'malformed_algorithm', 'malformed_length',
    'malformed', 'previous_secret', 'secret_space', 'secret_decoded', 'secret_unset', 'not_hmac', 'body_empty',
    'body_line_end', 'body_trimmed', 'body_line_breaks', 'body_reencoded', 'body_form_decoded', 'body_charset',
    'digest_differs', 'body_too_large', 'scheme_stripe', 'scheme_slack', 'scheme_zoom', 'scheme_standard_webhooks',
    'scheme_shopify', 'scheme_paddle', 'scheme_github_sha1', 'scheme_gitlab', 'scheme_twilio', 'scheme_ed25519',
    'verifies_now'
  ));
comment on domain rejection_reason is 'Why a signature was refused; see the table in the README.';

create table rejections (
  -- UUIDv7: received_at is the millisecond inside.
  id uuid primary key,
  webhook_id uuid not null references webhooks (id) on delete cascade,
  received_at timestamptz not null,
  source_ip inet not null,
  reason rejection_reason not null,
  -- Where the fault is, when it is in a header.
  header text,
  otherwise_valid boolean,
  headers bytea not null,
  signatures json not null,
  body bytea check (length(body) <= 65536),
  bytes integer not null check (bytes >= 0),
  kept_bytes integer generated always as
    (length(headers) + octet_length(signatures::text) + coalesce(length(body), 0)) stored,
  checked_at timestamptz,
  checked_reason rejection_reason,
  check ((checked_at is null) = (checked_reason is null))
);
create index rejections_of_webhook on rejections (webhook_id, id);
comment on table rejections is 'Refused signatures, sampled and diagnosed; never a secret.';
comment on column rejections.otherwise_valid is 'Nothing but the reason is wrong; null: that cannot be told.';
comment on column rejections.headers is 'As in events, and without whatever held a secret.';
comment on column rejections.signatures is 'Name, shape and value of each signature header; the value only where it is a digest.';
comment on column rejections.body is 'Null: larger than 64 KiB, or it held a secret.';

alter table rejections alter column body set storage external;
