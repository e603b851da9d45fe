-- Which keys SECRETS_KEY has been. A session that a replaced key signed is accepted for a short time after the replacement.

create table secrets_keys (
  -- Derived from the key by HKDF with a purpose of its own: it says nothing about the key or about the keys of other purposes.
  fingerprint bytea primary key check (length(fingerprint) = 16),
  first_used_at timestamptz,
  replaced_at timestamptz
);
comment on table secrets_keys is 'Keys that SECRETS_KEY has been, by fingerprint; the keys themselves are never stored.';
comment on column secrets_keys.first_used_at is 'When it first was SECRETS_KEY; null: it was seen as SECRETS_KEY_PREVIOUS alone, at the first start that recorded keys.';
comment on column secrets_keys.replaced_at is 'When another key took its place, at a start of Weir or by weir keys rotate; null: in use.';
