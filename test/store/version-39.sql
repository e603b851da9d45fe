CREATE DOMAIN public.rejection_reason AS text
	CONSTRAINT rejection_reason_check CHECK ((VALUE = ANY (ARRAY['header_missing'::text, 'header_other'::text, 'header_repeated'::text, 'secret_sent'::text, 'malformed_empty'::text, 'malformed_no_prefix'::text, 'malformed_prefix'::text, 'malformed_around'::text, 'malformed_base64'::text, 'malformed_algorithm'::text, 'malformed_length'::text, 'malformed'::text, 'signature_encoding'::text, 'clock_apart'::text, 'previous_secret'::text, 'other_webhook'::text, 'secret_space'::text, 'secret_decoded'::text, 'secret_undecoded'::text, 'secret_unset'::text, 'secret_mode'::text, 'not_hmac'::text, 'url_differs'::text, 'body_empty'::text, 'body_line_end'::text, 'body_trimmed'::text, 'body_line_breaks'::text, 'body_reencoded'::text, 'body_form_decoded'::text, 'body_charset'::text, 'digest_differs'::text, 'body_too_large'::text, 'scheme_stripe'::text, 'scheme_slack'::text, 'scheme_zoom'::text, 'scheme_standard_webhooks'::text, 'scheme_shopify'::text, 'scheme_paddle'::text, 'scheme_github_sha1'::text, 'scheme_gitlab'::text, 'scheme_twilio'::text, 'scheme_ed25519'::text, 'scheme_other'::text, 'verifies_now'::text])));

CREATE FUNCTION public.announce_agent() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.id else new.id end);
  return null;
end
$$;

CREATE FUNCTION public.announce_user() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('weir_changes', 'user:' || (changed ->> tg_argv[0]));
  return null;
end
$$;

CREATE FUNCTION public.announce_webhook() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('weir_changes', 'webhook:' || (changed ->> tg_argv[0]));
  return null;
end
$$;

CREATE FUNCTION public.delivery_id(event_id uuid) RETURNS uuid
    LANGUAGE sql
    AS $$
  select encode(overlay(uuid_send(event_id) placing substring(int8send((random() * 4503599627370496)::bigint) from 2) from 10), 'hex')::uuid
$$;

CREATE FUNCTION public.enable_fan_out() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  if exists (select from subscriptions) and not exists (
    select from pg_trigger where tgrelid = 'events'::regclass and tgname = 'events_fan_out' and tgenabled <> 'D'
  ) then
    -- Replaces the disabled trigger of earlier versions, and the one of a first subscription that was created at the same time.
    create or replace trigger events_fan_out after insert on events
      referencing new table as arrived for each statement execute function fan_out();
    comment on trigger events_fan_out on events is 'Created by the first subscription, see enable_fan_out().';
  end if;
  return null;
end
$$;

CREATE FUNCTION public.fan_out() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
  select delivery_id(arrived.id), arrived.webhook_id, subscriptions.agent_id, arrived.id, arrived.received_at, arrived.bytes
  from arrived
  join subscriptions using (webhook_id)
  join agents on agents.id = subscriptions.agent_id and agents.revoked_at is null;
  return null;
end
$$;

CREATE FUNCTION public.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;

CREATE TABLE public.agents (
    id uuid NOT NULL,
    name text NOT NULL,
    lookup_id text NOT NULL,
    secret_hash bytea NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    last_seen_from inet,
    temporary boolean DEFAULT false NOT NULL,
    max_leased integer,
    CONSTRAINT agents_generation_check CHECK ((generation > 0)),
    CONSTRAINT agents_lookup_id_check CHECK ((lookup_id ~ '^[0-9A-Za-z]{12}$'::text)),
    CONSTRAINT agents_max_leased_check CHECK (((max_leased >= 1) AND (max_leased <= 10000))),
    CONSTRAINT agents_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT agents_secret_hash_check CHECK ((length(secret_hash) = 32))
);

CREATE TABLE public.alert_requests (
    id uuid NOT NULL,
    number bigint NOT NULL,
    alert_id uuid NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone NOT NULL,
    last_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    CONSTRAINT alert_requests_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sent'::text, 'failed'::text]))),
    CONSTRAINT alert_requests_type_check CHECK ((type = ANY (ARRAY['alert.began'::text, 'alert.ended'::text])))
);

ALTER TABLE public.alert_requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.alert_requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.alerts (
    id uuid NOT NULL,
    condition text NOT NULL,
    subject_id text NOT NULL,
    subject_name text NOT NULL,
    since timestamp with time zone NOT NULL,
    began_at timestamp with time zone NOT NULL,
    value double precision NOT NULL,
    threshold double precision,
    checked_at timestamp with time zone NOT NULL,
    calm_since timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT alerts_condition_check CHECK ((condition = ANY (ARRAY['pending'::text, 'dead_letters'::text, 'rejections'::text, 'silent'::text, 'spool'::text])))
);

CREATE TABLE public.api_tokens (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    lookup_id text NOT NULL,
    secret_hash bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    made_by uuid,
    CONSTRAINT api_tokens_lookup_id_check CHECK ((lookup_id ~ '^[0-9A-Za-z]{12}$'::text)),
    CONSTRAINT api_tokens_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT api_tokens_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'operator'::text, 'administrator'::text]))),
    CONSTRAINT api_tokens_secret_hash_check CHECK ((length(secret_hash) = 32))
);

CREATE TABLE public.audit_log (
    number bigint NOT NULL,
    entry json NOT NULL,
    hash bytea NOT NULL,
    previous_hash bytea NOT NULL,
    action text GENERATED ALWAYS AS ((entry ->> 'action'::text)) STORED,
    actor_id text GENERATED ALWAYS AS (((entry -> 'actor'::text) ->> 'id'::text)) STORED,
    target_id text GENERATED ALWAYS AS (((entry -> 'target'::text) ->> 'id'::text)) STORED,
    at text GENERATED ALWAYS AS ((entry ->> 'at'::text)) STORED COLLATE pg_catalog."C",
    CONSTRAINT audit_log_hash_check CHECK ((length(hash) = 32)),
    CONSTRAINT audit_log_number_check CHECK ((number > 0)),
    CONSTRAINT audit_log_previous_hash_check CHECK ((length(previous_hash) = 32))
);

CREATE TABLE public.dedupe_keys (
    webhook_id uuid NOT NULL,
    key bytea NOT NULL,
    event_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT dedupe_keys_key_check CHECK ((length(key) = 32))
);

CREATE TABLE public.deliveries (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    event_id uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    bytes integer NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    available_at timestamp with time zone DEFAULT now() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    leases integer DEFAULT 0 NOT NULL,
    finished_at timestamp with time zone,
    reason text,
    last_lease boolean DEFAULT false NOT NULL,
    leased_at timestamp with time zone,
    leased_from inet,
    history jsonb,
    CONSTRAINT deliveries_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT deliveries_reason_check CHECK ((length(reason) <= 500))
)
PARTITION BY RANGE (received_at);

CREATE TABLE public.deliveries_20261122 (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    event_id uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    bytes integer NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    available_at timestamp with time zone DEFAULT now() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    leases integer DEFAULT 0 NOT NULL,
    finished_at timestamp with time zone,
    reason text,
    last_lease boolean DEFAULT false NOT NULL,
    leased_at timestamp with time zone,
    leased_from inet,
    history jsonb,
    CONSTRAINT deliveries_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT deliveries_reason_check CHECK ((length(reason) <= 500))
);

CREATE TABLE public.delivery_actions (
    id uuid NOT NULL,
    kind text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    delivery_ids uuid[] NOT NULL,
    undone_at timestamp with time zone,
    CONSTRAINT delivery_actions_kind_check CHECK ((kind = ANY (ARRAY['replay'::text, 'dismissal'::text])))
);

CREATE TABLE public.events (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    source_ip inet NOT NULL,
    headers bytea NOT NULL,
    content_type text,
    body bytea NOT NULL,
    bytes integer NOT NULL,
    event_type character varying(200),
    CONSTRAINT events_bytes_check CHECK ((bytes >= 0))
)
PARTITION BY RANGE (received_at);
ALTER TABLE ONLY public.events ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE public.events_20261122 (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    source_ip inet NOT NULL,
    headers bytea NOT NULL,
    content_type text,
    body bytea NOT NULL,
    bytes integer NOT NULL,
    event_type character varying(200),
    CONSTRAINT events_bytes_check CHECK ((bytes >= 0))
);
ALTER TABLE ONLY public.events_20261122 ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE public.history (
    webhook_id uuid NOT NULL,
    step integer NOT NULL,
    at timestamp with time zone NOT NULL,
    accepted bigint NOT NULL,
    duplicates bigint NOT NULL,
    rejected bigint NOT NULL,
    limited bigint NOT NULL,
    bytes bigint NOT NULL,
    CONSTRAINT history_step_check CHECK ((step = ANY (ARRAY[60, 3600])))
)
WITH (fillfactor='70');

CREATE TABLE public.idempotency_keys (
    user_id uuid NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    attempt uuid NOT NULL,
    held_until timestamp with time zone NOT NULL,
    changed_at timestamp with time zone,
    answer bytea,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT idempotency_keys_fingerprint_check CHECK ((length(fingerprint) = 32)),
    CONSTRAINT idempotency_keys_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255)))
);

CREATE TABLE public.jobs (
    id uuid NOT NULL,
    kind text NOT NULL,
    state text DEFAULT 'queued'::text NOT NULL,
    filter jsonb NOT NULL,
    agent_ids uuid[],
    until timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    cursor uuid,
    replayed_to timestamp with time zone,
    events bigint DEFAULT 0 NOT NULL,
    deliveries bigint DEFAULT 0 NOT NULL,
    reason text,
    created_by jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT jobs_check CHECK (((state = ANY (ARRAY['done'::text, 'cancelled'::text, 'failed'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT jobs_check1 CHECK (((state = 'failed'::text) = (reason IS NOT NULL))),
    CONSTRAINT jobs_kind_check CHECK ((kind = 'replay_events'::text)),
    CONSTRAINT jobs_reason_check CHECK ((length(reason) <= 500)),
    CONSTRAINT jobs_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'done'::text, 'cancelled'::text, 'failed'::text])))
);

CREATE TABLE public.rejections (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    source_ip inet NOT NULL,
    reason public.rejection_reason NOT NULL,
    header text,
    otherwise_valid boolean,
    headers bytea NOT NULL,
    signatures json NOT NULL,
    body bytea,
    bytes integer NOT NULL,
    kept_bytes integer GENERATED ALWAYS AS (((length(headers) + octet_length((signatures)::text)) + COALESCE(length(body), 0))) STORED,
    checked_at timestamp with time zone,
    checked_reason public.rejection_reason,
    other_webhook_id uuid,
    batch boolean DEFAULT false NOT NULL,
    dedupe_key bytea,
    accepted_event_id uuid,
    url text,
    CONSTRAINT rejections_body_check CHECK ((length(body) <= 1048576)),
    CONSTRAINT rejections_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT rejections_check CHECK (((checked_at IS NULL) = (checked_reason IS NULL))),
    CONSTRAINT rejections_dedupe_key_check CHECK ((length(dedupe_key) = 32)),
    CONSTRAINT rejections_url_check CHECK ((length(url) <= 8192))
);
ALTER TABLE ONLY public.rejections ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE public.replay_targets (
    agent_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    filter text
);

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.secrets_keys (
    fingerprint bytea NOT NULL,
    first_used_at timestamp with time zone,
    replaced_at timestamp with time zone,
    CONSTRAINT secrets_keys_fingerprint_check CHECK ((length(fingerprint) = 16))
);

CREATE TABLE public.sessions (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    token_hash bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    source_ip inet NOT NULL,
    user_agent text DEFAULT ''::text NOT NULL,
    authenticated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sessions_token_hash_check CHECK ((length(token_hash) = 32)),
    CONSTRAINT sessions_user_agent_check CHECK ((length(user_agent) <= 500))
);

CREATE TABLE public.sign_in_failures (
    key text NOT NULL,
    failures integer NOT NULL,
    last_failure_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sign_in_failures_failures_check CHECK ((failures > 0))
);

CREATE TABLE public.sign_in_tallies (
    key text NOT NULL,
    target json NOT NULL,
    failures integer DEFAULT 1 NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sign_in_tallies_failures_check CHECK ((failures > 0))
);

CREATE TABLE public.subscriptions (
    webhook_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    filter text,
    filter_failures bigint DEFAULT 0 NOT NULL,
    filter_failure text,
    filter_failed_at timestamp with time zone,
    CONSTRAINT subscriptions_filter_check CHECK (((length(filter) >= 1) AND (length(filter) <= 2000))),
    CONSTRAINT subscriptions_filter_failure_check CHECK ((length(filter_failure) <= 500))
);

CREATE TABLE public.users (
    id uuid NOT NULL,
    email text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    role text NOT NULL,
    password_hash text,
    issuer text,
    subject text,
    disabled_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    signed_in_at timestamp with time zone,
    role_until timestamp with time zone,
    CONSTRAINT users_check CHECK (((issuer IS NULL) = (subject IS NULL))),
    CONSTRAINT users_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
    CONSTRAINT users_name_check CHECK ((length(name) <= 200)),
    CONSTRAINT users_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'operator'::text, 'administrator'::text])))
);

CREATE TABLE public.webhook_secrets (
    webhook_id uuid NOT NULL,
    slot text NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    uses bigint DEFAULT 0 NOT NULL,
    last_used_at timestamp with time zone,
    CONSTRAINT webhook_secrets_check CHECK (((slot = 'previous'::text) = (expires_at IS NOT NULL))),
    CONSTRAINT webhook_secrets_slot_check CHECK ((slot = ANY (ARRAY['current'::text, 'previous'::text]))),
    CONSTRAINT webhook_secrets_uses_check CHECK ((uses >= 0))
);

CREATE TABLE public.webhooks (
    id uuid NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    signature_header text,
    dedupe_header text,
    max_payload_bytes integer,
    rate_limit_max integer,
    retention_days integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    last_event_at timestamp with time zone,
    events_removed_before timestamp with time zone,
    signature_scheme text DEFAULT 'sha256'::text NOT NULL,
    scheme_definition jsonb,
    tolerance_seconds integer,
    public_key text,
    verify_token bytea,
    event_type_from text,
    undelivered_removed_before timestamp with time zone,
    expect_every_seconds integer,
    enabled_at timestamp with time zone,
    CONSTRAINT webhooks_dedupe_header_check CHECK ((dedupe_header ~ '^[a-z0-9!#$%&''*+.^_`|~-]{1,100}$'::text)),
    CONSTRAINT webhooks_description_check CHECK ((length(description) <= 2000)),
    CONSTRAINT webhooks_event_type_from_check CHECK ((length(event_type_from) <= 1000)),
    CONSTRAINT webhooks_expect_every_seconds_check CHECK (((expect_every_seconds >= 60) AND (expect_every_seconds <= 31536000))),
    CONSTRAINT webhooks_max_payload_bytes_check CHECK ((max_payload_bytes > 0)),
    CONSTRAINT webhooks_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT webhooks_public_key_check CHECK (((length(public_key) >= 1) AND (length(public_key) <= 2000))),
    CONSTRAINT webhooks_rate_limit_max_check CHECK ((rate_limit_max > 0)),
    CONSTRAINT webhooks_retention_days_check CHECK ((retention_days > 0)),
    CONSTRAINT webhooks_scheme_definition_check CHECK (((signature_scheme = 'custom'::text) = (scheme_definition IS NOT NULL))),
    CONSTRAINT webhooks_signature_header_check CHECK ((signature_header ~ '^[a-z0-9!#$%&''*+.^_`|~-]{1,100}$'::text)),
    CONSTRAINT webhooks_signature_scheme_check CHECK ((signature_scheme ~ '^[a-z0-9-]{1,64}$'::text)),
    CONSTRAINT webhooks_tolerance_seconds_check CHECK (((tolerance_seconds >= 0) AND (tolerance_seconds <= 31536000)))
);

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261122 FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261122 FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00');

INSERT INTO public.agents VALUES ('c7bc77c0-d58e-49e6-982a-0b0e68c216b8', 'Agent 25', 'rnCSG31nh3jA', '\xcd1bb9b008550b042fc11274da90299ebac530a4f1e2241c154285adcf70f69e', 1, '2026-11-22 09:26:35.252621+00', '2026-11-22 09:26:35.252621+00', NULL, '2026-11-22 09:26:49.411433+00', '127.0.0.1', false, NULL);

INSERT INTO public.alert_requests OVERRIDING SYSTEM VALUE VALUES ('01a20294-70a5-7a69-8c1d-e052f6c99d02', 1, '01a20294-70a5-7a69-8c1d-e052f6c99d01', 'alert.began', '{}', '2026-11-22 00:00:00+00', 'sent', 0, '2026-11-22 00:00:00+00', NULL, NULL, NULL);

INSERT INTO public.alerts VALUES ('01a20294-70a5-7a69-8c1d-e052f6c99d01', 'pending', 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8', 'worker', '2026-11-22 00:00:00+00', '2026-11-22 00:00:00+00', 1000, NULL, '2026-11-22 00:00:00+00', NULL, '2026-11-22 00:10:00+00');

INSERT INTO public.api_tokens VALUES ('4be26a21-c1ba-4386-8739-d4e1584b6f99', '46ed99e8-8c1d-446b-b75c-2362b114003a', 'Token 25', 'administrator', 'rPnkOS4NHoDx', '\xa6bd9ef8f8ab41fed10e588625cd1db4e71d14f238f6aa9611485d72af8117a9', '2026-11-22 09:26:43.515389+00', NULL, '2026-11-22 09:26:52.942076+00', NULL, NULL);

INSERT INTO public.audit_log VALUES (1, '{"at":"2026-11-22T09:26:25.605Z","action":"webhook.create","actor":{"kind":"command","id":null,"name":"root","token_id":null,"address":null,"request_id":null},"target":{"kind":"webhook","id":"9ee7bda0-3c68-48bc-bb37-6d2086c887bc","name":"Version 25"},"before":null,"after":{"id":"9ee7bda0-3c68-48bc-bb37-6d2086c887bc","name":"Version 25","description":"","enabled":true,"signature_header":null,"dedupe_header":"x-id","max_payload_bytes":null,"rate_limit_max":null,"retention_days":null,"created_at":"2026-11-22T09:26:25.571Z","updated_at":"2026-11-22T09:26:25.571Z","has_secret":true,"previous_secret_expires_at":null,"agent_ids":[]}}', '\x94e80c43791a1460a200c825ad09f6fbaf38512e9267e89804cfa5d9f210fc61', '\x0000000000000000000000000000000000000000000000000000000000000000', DEFAULT, DEFAULT, DEFAULT, DEFAULT);
INSERT INTO public.audit_log VALUES (2, '{"at":"2026-11-22T09:26:35.293Z","action":"agent.create","actor":{"kind":"command","id":null,"name":"root","token_id":null,"address":null,"request_id":null},"target":{"kind":"agent","id":"c7bc77c0-d58e-49e6-982a-0b0e68c216b8","name":"Agent 25"},"before":null,"after":{"id":"c7bc77c0-d58e-49e6-982a-0b0e68c216b8","name":"Agent 25","revoked":false,"created_at":"2026-11-22T09:26:35.252Z","updated_at":"2026-11-22T09:26:35.252Z","webhook_ids":["9ee7bda0-3c68-48bc-bb37-6d2086c887bc"]}}', '\x082a8ac8939dd55825f90e9a470b58a5bcdf92fda55f61ffa241f4992187be18', '\x94e80c43791a1460a200c825ad09f6fbaf38512e9267e89804cfa5d9f210fc61', DEFAULT, DEFAULT, DEFAULT, DEFAULT);
INSERT INTO public.audit_log VALUES (3, '{"at":"2026-11-22T09:26:38.767Z","action":"user.create","actor":{"kind":"command","id":null,"name":"root","token_id":null,"address":null,"request_id":null},"target":{"kind":"user","id":"46ed99e8-8c1d-446b-b75c-2362b114003a","name":"ada@example.com"},"before":null,"after":{"id":"46ed99e8-8c1d-446b-b75c-2362b114003a","email":"ada@example.com","name":"","role":"administrator","disabled":false,"has_password":true,"hosted":false,"created_at":"2026-11-22T09:26:38.747Z","updated_at":"2026-11-22T09:26:38.747Z","signed_in_at":null,"role_until":null}}', '\x99558026c1fc27a052cf93380722d961407759734b24f131d7de36bbc31c3013', '\x082a8ac8939dd55825f90e9a470b58a5bcdf92fda55f61ffa241f4992187be18', DEFAULT, DEFAULT, DEFAULT, DEFAULT);
INSERT INTO public.audit_log VALUES (4, '{"at":"2026-11-22T09:26:43.577Z","action":"token.create","actor":{"kind":"command","id":null,"name":"root","token_id":null,"address":null,"request_id":null},"target":{"kind":"token","id":"4be26a21-c1ba-4386-8739-d4e1584b6f99","name":"Token 25"},"before":null,"after":{"id":"4be26a21-c1ba-4386-8739-d4e1584b6f99","user_id":"46ed99e8-8c1d-446b-b75c-2362b114003a","user_email":"ada@example.com","name":"Token 25","role":"administrator","state":"in force","created_at":"2026-11-22T09:26:43.515Z","expires_at":"2027-02-20T09:26:43.502Z","last_used_at":null,"revoked_at":null}}', '\x6f55a35f5f42986dd5852b44ca57f1db06fd7dab9b570ce78708380da0721933', '\x99558026c1fc27a052cf93380722d961407759734b24f131d7de36bbc31c3013', DEFAULT, DEFAULT, DEFAULT, DEFAULT);
INSERT INTO public.audit_log VALUES (5, '{"at":"2026-11-22T09:26:53.120Z","action":"webhook.create","actor":{"kind":"token","id":"46ed99e8-8c1d-446b-b75c-2362b114003a","name":"ada@example.com","token_id":"4be26a21-c1ba-4386-8739-d4e1584b6f99","address":"127.0.0.1","request_id":"fjj-mwrmu0vu-8"},"target":{"kind":"webhook","id":"c763d54d-9a86-4c82-b08a-b68510f09afb","name":"Kept answer"},"before":null,"after":{"id":"c763d54d-9a86-4c82-b08a-b68510f09afb","name":"Kept answer","description":"","enabled":true,"signature_header":null,"dedupe_header":null,"max_payload_bytes":null,"rate_limit_max":null,"retention_days":null,"created_at":"2026-11-22T09:26:53.089Z","updated_at":"2026-11-22T09:26:53.089Z","has_secret":true,"previous_secret_expires_at":null,"agent_ids":[]}}', '\x6c4b03bd452042a4db84719a7be8c65701aba29d43e3f557778faaeea9f03fc7', '\x6f55a35f5f42986dd5852b44ca57f1db06fd7dab9b570ce78708380da0721933', DEFAULT, DEFAULT, DEFAULT, DEFAULT);

INSERT INTO public.dedupe_keys VALUES ('9ee7bda0-3c68-48bc-bb37-6d2086c887bc', '\x0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5', '01a20294-70a5-7a69-8c1d-e052f6c99d73', '2100-01-01 00:00:00+00');

INSERT INTO public.deliveries_20261122 VALUES ('01a20294-5a44-7e19-a500-89580acfb5a9', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8', '01a20294-5a44-7e19-a5fb-3acf5cf9e215', '2026-11-22 09:26:46.596+00', 12, 'pending', '2026-11-22 09:26:46.602927+00', 0, 0, NULL, NULL, false, NULL, NULL, NULL);
INSERT INTO public.deliveries_20261122 VALUES ('01a20294-5a42-7d83-820e-52b8a5234c77', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8', '01a20294-5a42-7d83-82ad-214642214f8f', '2026-11-22 09:26:46.594+00', 12, 'done', '2026-11-22 09:27:49.455496+00', 1, 1, '2026-11-22 09:26:49.537776+00', NULL, false, NULL, NULL, NULL);
INSERT INTO public.deliveries_20261122 VALUES ('01a20294-70a5-7a69-8c06-4d5d2db7a18c', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8', '01a20294-70a5-7a69-8c1d-e052f6c99d73', '2026-11-22 09:26:52.325+00', 16, 'pending', '2026-11-22 09:26:52.327999+00', 0, 0, NULL, NULL, false, NULL, NULL, NULL);

INSERT INTO public.events_20261122 VALUES ('01a20294-5a42-7d83-82ad-214642214f8f', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', '2026-11-22 09:26:46.594+00', '127.0.0.1', '\x782d726571756573742d69643a20666a6a2d6d77726d753076752d300a636f6e74656e742d747970653a206170706c69636174696f6e2f6a736f6e0a757365722d6167656e743a20776569722d73656e640a686f73743a203132372e302e302e313a31383939390a636f6e6e656374696f6e3a206b6565702d616c6976650a636f6e74656e742d6c656e6774683a203132', 'application/json', '\x7b226f72646572223a317d0a', 12, NULL);
INSERT INTO public.events_20261122 VALUES ('01a20294-5a44-7e19-a5fb-3acf5cf9e215', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', '2026-11-22 09:26:46.596+00', '127.0.0.1', '\x782d726571756573742d69643a20666a6a2d6d77726d753076752d310a636f6e74656e742d747970653a206170706c69636174696f6e2f6a736f6e0a757365722d6167656e743a20776569722d73656e640a686f73743a203132372e302e302e313a31383939390a636f6e6e656374696f6e3a206b6565702d616c6976650a636f6e74656e742d6c656e6774683a203132', 'application/json', '\x7b226f72646572223a327d0a', 12, NULL);
INSERT INTO public.events_20261122 VALUES ('01a20294-70a5-7a69-8c1d-e052f6c99d73', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', '2026-11-22 09:26:52.325+00', '127.0.0.1', '\x782d726571756573742d69643a20666a6a2d6d77726d753076752d360a686f73743a203132372e302e302e313a31383939390a757365722d6167656e743a206375726c2f372e38382e310a6163636570743a202a2f2a0a782d69643a2073616d650a636f6e74656e742d747970653a206170706c69636174696f6e2f6a736f6e0a636f6e74656e742d6c656e6774683a203136', 'application/json', '\x7b2264656475706564223a747275657d', 16, NULL);

INSERT INTO public.history VALUES ('00000000-0000-0000-0000-000000000000', 3600, '2026-11-22 00:00:00+00', 4, 1, 1, 0, 40);

INSERT INTO public.idempotency_keys VALUES ('46ed99e8-8c1d-446b-b75c-2362b114003a', 'kept-25', '\x7e37cc43532a2a9d4c7019ecd72da928484b4603c9643399651c2be39acfe236', 'ef7a88f9-98d8-4bd2-8390-5f54f51f1bc9', '2026-11-22 09:27:53.045659+00', '2026-11-22 09:26:53.089922+00', '\x01d56e6c1a5800359d5d85368319864d43597c8b1b5b351d2834306a0a06b5c3d828ea452e4b132b2185d21fe9ba80e67c0588e0241dfbec66bb28e10aee16192ae28636e9d0e6f4f3adb2afdf6fe1eea4a1ad40bac0b251c4f0623550be8e91cd6d5500fb0dbc4fd5792385b7cad21b73fdd9137c7805bb93d93e46f7cb6dbfaed08e86b3ca790bd9957379dd68f5d618c189d5333f34c07d5bb849af7bf9d6439c492d72d8e960bb224b8bfb110079717caffe6b33e2f8b4fb5e084621b16c8fd7ceb2eb904f0d548a5a6dfeafade26e3b9b67f3785060df145dd354062908e7907e162879c87a29c735c9d3315e26cd48910d157927741bc436d76078cb2e1eda32ac3d98efab8d8ac0a0bf38814bd18bc9adff20e0baf07cf37b0dd73c6979ef3b6da5e5a79dabe247b672e878714760aaec6b50c45a33835feccd3b3b0df470ead1dfbcc6b25bdb3e0da1e710aa5a20a86e217c8e3f776b05a4b8ae299d1c0445125d02d048a728c6d2e340e96be969c4abe83bd3bf37208f7380d15f17eec62ed895b4600873cc756294cc59e7f37fc8c78bd9ff82a755ccda1f0b1ef20a6e206a988520778e0c1a66d131e5e81e1023781ddb3216e20a13e64d23bc1b1373268060429695085ed4c869db14c89aeb9b669dc21f9b0b6cca212705f370cfdb8972ada37868d3e4003c1eb554824e8ecd006f618bfff06e24b4cb1b99d7064503547e0e47ee0a85febb529a7837f2a90079ea6a7e697de8d74f9c932c60d1e3646d2e1b7569d6ebba21485a912709716cffd711cfb935dc06a980b9f6e4c1c817b5b9b4de9199fce35a3d17794d52e1fa5bb9d4ad22b04f2af2277d93f0182e163bf61598865f60967d275094b1fe463511602636c9facdabbae764279b3693f4505093c5c4ad78895e71b09f69b0acd373f27bd30306319d794a33474d227b89971eb701866eb43806b66a09fe0f0cb178ea906e91e81bb0c7402c0bff9a3e50bea5ba819d1002299f68b530d03add6173aed408784dffdc0059cc20ae7a78fb5eda', '2026-11-23 09:26:53.045659+00');

INSERT INTO public.jobs VALUES ('5e0c1f0a-3b1c-4a57-8d0e-1c2f7f1d9a01', 'replay_events', 'done', '{}', NULL, '2026-11-22 00:00:00+00', NULL, NULL, NULL, 2, 2, NULL, '{"kind": "cli"}', '2026-11-22 00:00:00+00', NULL, '2026-11-22 00:00:01+00', '2026-11-22 00:00:01+00');

INSERT INTO public.rejections VALUES ('01a20294-6fee-7d42-97d0-2aaeec31c1bc', '9ee7bda0-3c68-48bc-bb37-6d2086c887bc', '2026-11-22 09:26:52.142+00', '127.0.0.1', 'digest_differs', 'x-hub-signature-256', false, '\x636f6e74656e742d747970653a206170706c69636174696f6e2f6a736f6e0a757365722d6167656e743a20776569722d73656e640a686f73743a203132372e302e302e313a31383939390a636f6e6e656374696f6e3a206b6565702d616c6976650a636f6e74656e742d6c656e6774683a203132', '[{"name":"x-hub-signature-256","shape":"sha256= and 64 hex digits","value":"sha256=4478cfeea2a7b0dda302f99d6905b2e1982ac95d57f80fdb9fb027b4011f8774"}]', '\x7b226f72646572223a317d0a', 12, DEFAULT, NULL, NULL, NULL, false, NULL, NULL, NULL);

INSERT INTO public.schema_migrations VALUES (1, '0001_webhooks.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (2, '0002_events.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (3, '0003_agents.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (4, '0004_people.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (5, '0005_rejections.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (6, '0006_management.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (9, '0009_replay_targets.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (10, '0010_tokens_audit.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (11, '0011_dead_deliveries.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (12, '0012_agent_sightings.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (13, '0013_other_webhook.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (14, '0014_accepted_rejections.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (15, '0015_webhook_activity.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (16, '0016_role_until.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (17, '0017_secrets_keys.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (19, '0019_sign_in_tallies.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (20, '0020_authenticated_at.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (21, '0021_last_leases.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (22, '0022_webhook_retention.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (25, '0025_lighter_fan_out.sql', '2026-11-22 09:21:20.789074+00');
INSERT INTO public.schema_migrations VALUES (26, '0026_signature_schemes.sql', '2026-11-25 00:02:58.832494+00');
INSERT INTO public.schema_migrations VALUES (27, '0027_event_types.sql', '2026-11-25 00:02:58.844806+00');
INSERT INTO public.schema_migrations VALUES (28, '0028_delivery_history.sql', '2026-11-25 00:02:58.880348+00');
INSERT INTO public.schema_migrations VALUES (29, '0029_history.sql', '2026-11-25 00:02:58.888398+00');
INSERT INTO public.schema_migrations VALUES (30, '0030_fan_out_trigger.sql', '2026-11-25 00:02:58.896038+00');
INSERT INTO public.schema_migrations VALUES (32, '0032_undelivered_events.sql', '2026-11-25 00:02:58.903759+00');
INSERT INTO public.schema_migrations VALUES (33, '0033_subscription_filters.sql', '2026-11-25 00:02:58.922921+00');
INSERT INTO public.schema_migrations VALUES (34, '0034_temporary_agents.sql', '2026-11-25 00:02:58.92643+00');
INSERT INTO public.schema_migrations VALUES (35, '0035_max_leased.sql', '2026-11-25 00:02:58.937063+00');
INSERT INTO public.schema_migrations VALUES (36, '0036_jobs.sql', '2026-11-25 00:02:58.948185+00');
INSERT INTO public.schema_migrations VALUES (37, '0037_alerts.sql', '2026-11-25 00:02:58.976411+00');
INSERT INTO public.schema_migrations VALUES (38, '0038_filters_of_ended_subscriptions.sql', '2026-11-25 00:02:58.979734+00');
INSERT INTO public.schema_migrations VALUES (39, '0039_webhook_enabled_at.sql', '2026-11-25 00:02:58.98814+00');

INSERT INTO public.secrets_keys VALUES ('\xac9a91aedd896ded2ee42ceacac36a4c', '2026-11-22 09:26:20.557728+00', NULL);

INSERT INTO public.subscriptions VALUES ('9ee7bda0-3c68-48bc-bb37-6d2086c887bc', 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8', '2026-11-22 09:26:35.252621+00', NULL, 0, NULL, NULL);

INSERT INTO public.users VALUES ('46ed99e8-8c1d-446b-b75c-2362b114003a', 'ada@example.com', '', 'administrator', '$argon2id$v=19$m=19456,t=2,p=1$VrnAdMQLNueMEuGzvOiKZQ$SHmAOIprm2rrCxu40/A5p5y6dXb9gSnya5jjL8nAcfc', NULL, NULL, NULL, '2026-11-22 09:26:38.747334+00', '2026-11-22 09:26:38.747334+00', NULL, NULL);

INSERT INTO public.webhook_secrets VALUES ('c763d54d-9a86-4c82-b08a-b68510f09afb', 'current', '\x015e4b18212e6fddfe1c2668a60b4dfdb016ae8d7276e71ca19c2c1dcbf70a2ff035da762d05a0cdebcd39ba7c93c98b31c082350eec842995d80fe43ceeef16610a08d3565bcfe802d1292704852bcfe34d2377dbd47fc34fac88e552', NULL, '2026-11-22 09:26:53.089922+00', '5ca34ca4-7f1a-4561-95cf-035ecd9a9baf', 0, NULL);
INSERT INTO public.webhook_secrets VALUES ('9ee7bda0-3c68-48bc-bb37-6d2086c887bc', 'current', '\x0124a6e1370988fddf17c6649c035ae00e833e32659192278e42c84fe10031e84c98eb9fbd7a2ab1915a306c52adf532a2e3aea96f', NULL, '2026-11-22 09:26:25.571382+00', '71011c9b-3775-47ce-88aa-6bf8546987b2', 3, '2026-11-22 09:26:53.673361+00');

INSERT INTO public.webhooks VALUES ('c763d54d-9a86-4c82-b08a-b68510f09afb', 'Kept answer', '', true, NULL, NULL, NULL, NULL, NULL, '2026-11-22 09:26:53.089922+00', '2026-11-22 09:26:53.089922+00', NULL, NULL, NULL, 'sha256', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.webhooks VALUES ('9ee7bda0-3c68-48bc-bb37-6d2086c887bc', 'Version 25', '', true, NULL, 'x-id', NULL, NULL, NULL, '2026-11-22 09:26:25.571382+00', '2026-11-22 09:26:25.571382+00', NULL, '2026-11-22 09:26:52.325+00', NULL, 'sha256', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.webhooks VALUES ('1b6f0c3e-9d2a-4f0e-8a54-6b8d7c2e5f03', 'github', '', true, NULL, NULL, NULL, NULL, NULL, '2026-11-25 00:02:58.990372+00', '2026-11-25 00:02:58.990372+00', NULL, NULL, NULL, 'github', NULL, NULL, NULL, NULL, 'header:x-github-event', NULL, 3600, NULL);

SELECT pg_catalog.setval('public.alert_requests_number_seq', 1, true);

ALTER TABLE ONLY public.agents
    ADD CONSTRAINT agents_lookup_id_key UNIQUE (lookup_id);

ALTER TABLE ONLY public.agents
    ADD CONSTRAINT agents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.alert_requests
    ADD CONSTRAINT alert_requests_alert_id_type_key UNIQUE (alert_id, type);

ALTER TABLE ONLY public.alert_requests
    ADD CONSTRAINT alert_requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.alerts
    ADD CONSTRAINT alerts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_lookup_id_key UNIQUE (lookup_id);

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.dedupe_keys
    ADD CONSTRAINT dedupe_keys_pkey PRIMARY KEY (webhook_id, key);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE ONLY public.deliveries_20261122
    ADD CONSTRAINT deliveries_20261122_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE public.deliveries
    ADD CONSTRAINT deliveries_check CHECK (((finished_at IS NOT NULL) = (state = ANY (ARRAY['done'::text, 'dead'::text, 'dismissed'::text, 'filtered'::text])))) NOT VALID;

ALTER TABLE public.deliveries
    ADD CONSTRAINT deliveries_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'leased'::text, 'done'::text, 'dead'::text, 'dismissed'::text, 'filtered'::text]))) NOT VALID;

ALTER TABLE ONLY public.delivery_actions
    ADD CONSTRAINT delivery_actions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE ONLY public.events_20261122
    ADD CONSTRAINT events_20261122_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE ONLY public.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (webhook_id, step, at);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (user_id, key);

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rejections
    ADD CONSTRAINT rejections_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.replay_targets
    ADD CONSTRAINT replay_targets_pkey PRIMARY KEY (agent_id, webhook_id);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.secrets_keys
    ADD CONSTRAINT secrets_keys_pkey PRIMARY KEY (fingerprint);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.sign_in_failures
    ADD CONSTRAINT sign_in_failures_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.sign_in_tallies
    ADD CONSTRAINT sign_in_tallies_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (webhook_id, agent_id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_issuer_subject_key UNIQUE (issuer, subject);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_id_key UNIQUE (id);

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_pkey PRIMARY KEY (webhook_id, slot);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);

CREATE INDEX alert_requests_pending ON public.alert_requests USING btree (next_attempt_at) WHERE (state = 'pending'::text);

CREATE UNIQUE INDEX alerts_active ON public.alerts USING btree (condition, subject_id) WHERE (ended_at IS NULL);

CREATE INDEX alerts_ended_at ON public.alerts USING btree (ended_at);

CREATE INDEX api_tokens_made_by ON public.api_tokens USING btree (made_by) WHERE (made_by IS NOT NULL);

CREATE INDEX api_tokens_of_user ON public.api_tokens USING btree (user_id);

CREATE INDEX audit_log_action ON public.audit_log USING btree (action COLLATE "C", number);

CREATE INDEX audit_log_at ON public.audit_log USING btree (at, number);

CREATE INDEX audit_log_of_actor ON public.audit_log USING btree (actor_id, number);

CREATE INDEX audit_log_of_target ON public.audit_log USING btree (target_id, number);

CREATE INDEX dedupe_keys_expiry ON public.dedupe_keys USING btree (expires_at);

CREATE INDEX deliveries_of_agent ON ONLY public.deliveries USING btree (agent_id, received_at, id);

CREATE INDEX deliveries_20261122_agent_id_received_at_id_idx ON public.deliveries_20261122 USING btree (agent_id, received_at, id);

CREATE INDEX deliveries_claimable ON ONLY public.deliveries USING btree (agent_id, webhook_id, available_at) WHERE (state = ANY (ARRAY['pending'::text, 'leased'::text]));

CREATE INDEX deliveries_20261122_agent_id_webhook_id_available_at_idx ON public.deliveries_20261122 USING btree (agent_id, webhook_id, available_at) WHERE (state = ANY (ARRAY['pending'::text, 'leased'::text]));

CREATE INDEX deliveries_dead_of_agent ON ONLY public.deliveries USING btree (agent_id, webhook_id, received_at, id) WHERE (state = 'dead'::text);

CREATE INDEX deliveries_20261122_agent_id_webhook_id_received_at_id_idx ON public.deliveries_20261122 USING btree (agent_id, webhook_id, received_at, id) WHERE (state = 'dead'::text);

CREATE INDEX deliveries_last_lease ON ONLY public.deliveries USING btree (available_at) WHERE ((state = 'leased'::text) AND last_lease);

CREATE INDEX deliveries_20261122_available_at_idx ON public.deliveries_20261122 USING btree (available_at) WHERE ((state = 'leased'::text) AND last_lease);

CREATE INDEX deliveries_dead ON ONLY public.deliveries USING btree (received_at, id) WHERE (state = 'dead'::text);

CREATE INDEX deliveries_20261122_received_at_id_idx ON public.deliveries_20261122 USING btree (received_at, id) WHERE (state = 'dead'::text);

CREATE INDEX deliveries_dismissed ON ONLY public.deliveries USING btree (received_at, id) WHERE (state = 'dismissed'::text);

CREATE INDEX delivery_actions_created_at ON public.delivery_actions USING btree (created_at);

CREATE INDEX history_age ON public.history USING btree (step, at);

CREATE INDEX idempotency_keys_expiry ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX jobs_newest ON public.jobs USING btree (created_at, id);

CREATE INDEX jobs_unfinished ON public.jobs USING btree (created_at) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX rejections_of_webhook ON public.rejections USING btree (webhook_id, id);

CREATE INDEX sessions_expiry ON public.sessions USING btree (expires_at);

CREATE INDEX sessions_of_user ON public.sessions USING btree (user_id);

CREATE INDEX subscriptions_of_agent ON public.subscriptions USING btree (agent_id);

CREATE UNIQUE INDEX users_email ON public.users USING btree (lower(email));

CREATE INDEX webhooks_changed ON public.webhooks USING btree (updated_at) WHERE (deleted_at IS NULL);

ALTER INDEX public.deliveries_of_agent ATTACH PARTITION public.deliveries_20261122_agent_id_received_at_id_idx;

ALTER INDEX public.deliveries_claimable ATTACH PARTITION public.deliveries_20261122_agent_id_webhook_id_available_at_idx;

ALTER INDEX public.deliveries_dead_of_agent ATTACH PARTITION public.deliveries_20261122_agent_id_webhook_id_received_at_id_idx;

ALTER INDEX public.deliveries_last_lease ATTACH PARTITION public.deliveries_20261122_available_at_idx;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261122_pkey;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261122_received_at_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261122_pkey;

CREATE TRIGGER agents_announce AFTER INSERT OR DELETE OR UPDATE OF name, lookup_id, secret_hash, generation, revoked_at, max_leased ON public.agents FOR EACH ROW EXECUTE FUNCTION public.announce_agent();

CREATE TRIGGER api_tokens_announce AFTER DELETE OR UPDATE OF revoked_at, role, expires_at ON public.api_tokens FOR EACH ROW EXECUTE FUNCTION public.announce_user('user_id');

CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER events_fan_out AFTER INSERT ON public.events REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION public.fan_out();

CREATE TRIGGER sessions_announce AFTER DELETE ON public.sessions FOR EACH ROW EXECUTE FUNCTION public.announce_user('user_id');

CREATE TRIGGER subscriptions_enable_fan_out AFTER INSERT ON public.subscriptions FOR EACH STATEMENT EXECUTE FUNCTION public.enable_fan_out();

CREATE TRIGGER users_announce AFTER DELETE OR UPDATE ON public.users FOR EACH ROW EXECUTE FUNCTION public.announce_user('id');

CREATE TRIGGER webhook_secrets_announce AFTER INSERT OR DELETE OR UPDATE OF slot, sealed, expires_at ON public.webhook_secrets FOR EACH ROW EXECUTE FUNCTION public.announce_webhook('webhook_id');

CREATE TRIGGER webhooks_announce AFTER INSERT OR DELETE OR UPDATE OF name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days, signature_scheme, scheme_definition, tolerance_seconds, public_key, verify_token, event_type_from, updated_at, deleted_at ON public.webhooks FOR EACH ROW EXECUTE FUNCTION public.announce_webhook('id');

ALTER TABLE ONLY public.alert_requests
    ADD CONSTRAINT alert_requests_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES public.alerts(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_made_by_fkey FOREIGN KEY (made_by) REFERENCES public.api_tokens(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.rejections
    ADD CONSTRAINT rejections_other_webhook_id_fkey FOREIGN KEY (other_webhook_id) REFERENCES public.webhooks(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.rejections
    ADD CONSTRAINT rejections_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.replay_targets
    ADD CONSTRAINT replay_targets_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES public.agents(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.replay_targets
    ADD CONSTRAINT replay_targets_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES public.agents(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;
