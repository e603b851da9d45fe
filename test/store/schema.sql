CREATE DOMAIN public.rejection_reason AS text
	CONSTRAINT rejection_reason_check CHECK ((VALUE = ANY (ARRAY['header_missing'::text, 'header_other'::text, 'header_repeated'::text, 'secret_sent'::text, 'malformed_empty'::text, 'malformed_no_prefix'::text, 'malformed_prefix'::text, 'malformed_around'::text, 'malformed_base64'::text, 'malformed_algorithm'::text, 'malformed_length'::text, 'malformed'::text, 'key_kind'::text, 'signature_encoding'::text, 'clock_apart'::text, 'previous_secret'::text, 'other_webhook'::text, 'secret_space'::text, 'secret_decoded'::text, 'secret_undecoded'::text, 'secret_unset'::text, 'secret_mode'::text, 'not_hmac'::text, 'url_differs'::text, 'body_empty'::text, 'body_line_end'::text, 'body_trimmed'::text, 'body_line_breaks'::text, 'body_reencoded'::text, 'body_form_decoded'::text, 'body_charset'::text, 'digest_differs'::text, 'body_too_large'::text, 'body_too_complex'::text, 'scheme_stripe'::text, 'scheme_slack'::text, 'scheme_zoom'::text, 'scheme_standard_webhooks'::text, 'scheme_shopify'::text, 'scheme_paddle'::text, 'scheme_github_sha1'::text, 'scheme_gitlab'::text, 'scheme_twilio'::text, 'scheme_ed25519'::text, 'scheme_other'::text, 'verifies_now'::text])));

CREATE FUNCTION public.announce_agent() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.id else new.id end);
  return null;
end
$$;

CREATE FUNCTION public.announce_agent_of_webhooks() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.agent_id else new.agent_id end);
  return null;
end
$$;

CREATE FUNCTION public.announce_cell() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform pg_notify('weir_changes', 'cell:all');
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
  insert into deliveries_live (id, webhook_id, agent_id, event_id, received_at, bytes)
  select delivery_id(arrived.id), arrived.webhook_id, subscriptions.agent_id, arrived.id, arrived.received_at, arrived.bytes
  from arrived
  join subscriptions using (webhook_id)
  join agents on agents.id = subscriptions.agent_id and agents.revoked_at is null;
  return null;
end
$$;

CREATE FUNCTION public.note_cell_copy() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  insert into cell_copies (cell, kind, id)
  select number, tg_argv[0], (changed ->> tg_argv[1])::uuid from cells
  on conflict (cell, kind, id) do update set version = cell_copies.version + 1;
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

CREATE TABLE public.agent_history (
    agent_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    acknowledged bigint NOT NULL,
    failed bigint NOT NULL
)
WITH (fillfactor='70');

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
    previous_lookup_id text,
    previous_secret_hash bytea,
    previous_generation integer,
    previous_expires_at timestamp with time zone,
    previous_used_at timestamp with time zone,
    CONSTRAINT agents_generation_check CHECK ((generation > 0)),
    CONSTRAINT agents_lookup_id_check CHECK ((lookup_id ~ '^[0-9A-Za-z]{12}$'::text)),
    CONSTRAINT agents_max_leased_check CHECK (((max_leased >= 1) AND (max_leased <= 10000))),
    CONSTRAINT agents_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT agents_previous_check CHECK ((num_nulls(previous_lookup_id, previous_secret_hash, previous_generation, previous_expires_at) = ANY (ARRAY[0, 4]))),
    CONSTRAINT agents_previous_lookup_id_check CHECK ((previous_lookup_id ~ '^[0-9A-Za-z]{12}$'::text)),
    CONSTRAINT agents_previous_secret_hash_check CHECK ((length(previous_secret_hash) = 32)),
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
    undelivered integer,
    CONSTRAINT alerts_condition_check CHECK ((condition = ANY (ARRAY['pending'::text, 'dead_letters'::text, 'rejections'::text, 'silent'::text, 'spool'::text, 'cell'::text])))
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

CREATE TABLE public.cell_copies (
    cell smallint NOT NULL,
    kind text NOT NULL,
    id uuid NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT cell_copies_kind_check CHECK ((kind = ANY (ARRAY['webhook'::text, 'agent'::text])))
);

CREATE TABLE public.cell_self (
    one boolean DEFAULT true NOT NULL,
    installation uuid NOT NULL,
    number smallint NOT NULL,
    mark bigint DEFAULT 0 NOT NULL,
    CONSTRAINT cell_self_one_check CHECK (one)
);

CREATE TABLE public.cells (
    number smallint NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    name text NOT NULL,
    sealed bytea NOT NULL,
    state text NOT NULL,
    mark bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT cells_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT cells_number_check CHECK (((number >= 1) AND (number <= 4095))),
    CONSTRAINT cells_state_check CHECK ((state = ANY (ARRAY['adding'::text, 'active'::text, 'draining'::text])))
);

CREATE TABLE public.condition_snoozes (
    condition_id text NOT NULL,
    until timestamp with time zone NOT NULL,
    state text,
    count double precision,
    snoozed_at timestamp with time zone DEFAULT now() NOT NULL,
    snoozed_by text NOT NULL,
    CONSTRAINT condition_snoozes_condition_id_check CHECK ((length(condition_id) <= 300))
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
    history jsonb
)
PARTITION BY LIST (state);

CREATE TABLE public.deliveries_finished (
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
    history jsonb
)
PARTITION BY RANGE (received_at);

CREATE TABLE public.deliveries_live (
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
    history jsonb
)
WITH (autovacuum_vacuum_threshold='10000', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_threshold='1000', autovacuum_analyze_scale_factor='0.2');

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

CREATE TABLE public.history (
    webhook_id uuid NOT NULL,
    step integer NOT NULL,
    at timestamp with time zone NOT NULL,
    accepted bigint NOT NULL,
    duplicates bigint NOT NULL,
    rejected bigint NOT NULL,
    limited bigint NOT NULL,
    bytes bigint NOT NULL,
    disabled bigint DEFAULT 0 NOT NULL,
    length_required bigint DEFAULT 0 NOT NULL,
    too_large bigint DEFAULT 0 NOT NULL,
    unavailable bigint DEFAULT 0 NOT NULL
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

CREATE TABLE public.job_progress (
    job_id uuid NOT NULL,
    upto uuid NOT NULL
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
    beyond_subscriptions boolean DEFAULT false NOT NULL,
    CONSTRAINT jobs_check CHECK (((state = ANY (ARRAY['done'::text, 'cancelled'::text, 'failed'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT jobs_check1 CHECK (((state = 'failed'::text) = (reason IS NOT NULL))),
    CONSTRAINT jobs_kind_check CHECK ((kind = 'replay_events'::text)),
    CONSTRAINT jobs_reason_check CHECK ((length(reason) <= 500)),
    CONSTRAINT jobs_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'done'::text, 'cancelled'::text, 'failed'::text])))
);

CREATE TABLE public.latency (
    subject_id uuid NOT NULL,
    step integer NOT NULL,
    at timestamp with time zone NOT NULL,
    stage smallint NOT NULL,
    bucket smallint NOT NULL,
    count bigint NOT NULL,
    CONSTRAINT latency_bucket_check CHECK (((bucket >= 0) AND (bucket <= 127))),
    CONSTRAINT latency_stage_check CHECK (((stage >= 0) AND (stage <= 3))),
    CONSTRAINT latency_step_check CHECK ((step = ANY (ARRAY[3600, 86400])))
)
WITH (fillfactor='70');

CREATE TABLE public.outages (
    id uuid NOT NULL,
    machine text NOT NULL,
    began_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    refused bigint NOT NULL,
    spooled bigint NOT NULL,
    CONSTRAINT outages_machine_check CHECK ((length(machine) <= 300))
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
    filter text,
    filter_slow integer DEFAULT 0 NOT NULL,
    filter_slow_at timestamp with time zone
);

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    compatible_from integer
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
    filter_slow integer DEFAULT 0 NOT NULL,
    filter_slow_at timestamp with time zone,
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
    invitation_hash bytea,
    invited_until timestamp with time zone,
    CONSTRAINT users_check CHECK (((issuer IS NULL) = (subject IS NULL))),
    CONSTRAINT users_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
    CONSTRAINT users_invitation_check CHECK (((invitation_hash IS NULL) = (invited_until IS NULL))),
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
    cell smallint DEFAULT 0 NOT NULL,
    moving_from smallint,
    moving_since timestamp with time zone,
    answer jsonb,
    refused_status smallint,
    CONSTRAINT webhooks_cell_check CHECK (((cell >= 0) AND (cell <= 4095))),
    CONSTRAINT webhooks_dedupe_header_check CHECK ((dedupe_header ~ '^[a-z0-9!#$%&''*+.^_`|~-]{1,100}$'::text)),
    CONSTRAINT webhooks_description_check CHECK ((length(description) <= 2000)),
    CONSTRAINT webhooks_event_type_from_check CHECK ((length(event_type_from) <= 1000)),
    CONSTRAINT webhooks_expect_every_seconds_check CHECK (((expect_every_seconds >= 60) AND (expect_every_seconds <= 31536000))),
    CONSTRAINT webhooks_max_payload_bytes_check CHECK ((max_payload_bytes > 0)),
    CONSTRAINT webhooks_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT webhooks_public_key_check CHECK (((length(public_key) >= 1) AND (length(public_key) <= 2000))),
    CONSTRAINT webhooks_rate_limit_max_check CHECK ((rate_limit_max > 0)),
    CONSTRAINT webhooks_refused_status_check CHECK ((refused_status = ANY (ARRAY[401, 403]))),
    CONSTRAINT webhooks_retention_days_check CHECK ((retention_days > 0)),
    CONSTRAINT webhooks_scheme_definition_check CHECK (((signature_scheme = 'custom'::text) = (scheme_definition IS NOT NULL))),
    CONSTRAINT webhooks_signature_header_check CHECK ((signature_header ~ '^[a-z0-9!#$%&''*+.^_`|~-]{1,100}$'::text)),
    CONSTRAINT webhooks_signature_scheme_check CHECK ((signature_scheme ~ '^[a-z0-9-]{1,64}$'::text)),
    CONSTRAINT webhooks_tolerance_seconds_check CHECK (((tolerance_seconds >= 0) AND (tolerance_seconds <= 31536000)))
);

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_finished FOR VALUES IN ('done', 'dead', 'dismissed', 'filtered');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_live FOR VALUES IN ('pending', 'leased');

ALTER TABLE ONLY public.agent_history
    ADD CONSTRAINT agent_history_pkey PRIMARY KEY (agent_id, at);

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

ALTER TABLE ONLY public.cell_copies
    ADD CONSTRAINT cell_copies_pkey PRIMARY KEY (cell, kind, id);

ALTER TABLE ONLY public.cell_self
    ADD CONSTRAINT cell_self_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.cells
    ADD CONSTRAINT cells_id_key UNIQUE (id);

ALTER TABLE ONLY public.cells
    ADD CONSTRAINT cells_name_key UNIQUE (name);

ALTER TABLE ONLY public.cells
    ADD CONSTRAINT cells_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.condition_snoozes
    ADD CONSTRAINT condition_snoozes_pkey PRIMARY KEY (condition_id);

ALTER TABLE ONLY public.dedupe_keys
    ADD CONSTRAINT dedupe_keys_pkey PRIMARY KEY (webhook_id, key);

ALTER TABLE ONLY public.deliveries_finished
    ADD CONSTRAINT deliveries_finished_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE ONLY public.deliveries_live
    ADD CONSTRAINT deliveries_live_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE ONLY public.delivery_actions
    ADD CONSTRAINT delivery_actions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (received_at, id, webhook_id);

ALTER TABLE ONLY public.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (webhook_id, step, at);

ALTER TABLE public.history
    ADD CONSTRAINT history_step_check CHECK ((step = ANY (ARRAY[60, 900, 3600]))) NOT VALID;

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (user_id, key);

ALTER TABLE ONLY public.job_progress
    ADD CONSTRAINT job_progress_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.latency
    ADD CONSTRAINT latency_pkey PRIMARY KEY (subject_id, step, at, stage, bucket);

ALTER TABLE ONLY public.outages
    ADD CONSTRAINT outages_pkey PRIMARY KEY (id);

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

CREATE INDEX agent_history_age ON public.agent_history USING btree (at);

CREATE INDEX agents_newest ON public.agents USING btree (created_at, id);

CREATE UNIQUE INDEX agents_previous ON public.agents USING btree (previous_lookup_id) WHERE (previous_lookup_id IS NOT NULL);

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

CREATE INDEX deliveries_claimable ON public.deliveries_live USING btree (agent_id, webhook_id, available_at);

CREATE INDEX deliveries_dead ON ONLY public.deliveries_finished USING btree (received_at, id) WHERE (state = 'dead'::text);

CREATE INDEX deliveries_dead_of_agent ON ONLY public.deliveries_finished USING btree (agent_id, webhook_id, received_at, id) WHERE (state = 'dead'::text);

CREATE INDEX deliveries_dismissed ON ONLY public.deliveries_finished USING btree (received_at, id) WHERE (state = 'dismissed'::text);

CREATE INDEX deliveries_due ON public.deliveries_live USING btree (agent_id, available_at) WHERE (bytes >= 0);

CREATE INDEX deliveries_last_lease ON public.deliveries_live USING btree (available_at) WHERE ((state = 'leased'::text) AND last_lease);

CREATE INDEX deliveries_of_agent ON ONLY public.deliveries_finished USING btree (agent_id, received_at, id);

CREATE INDEX delivery_actions_created_at ON public.delivery_actions USING btree (created_at);

CREATE INDEX history_age ON public.history USING btree (step, at);

CREATE INDEX history_refused ON public.history USING btree (step, at) WHERE ((step = 60) AND (((((rejected + limited) + length_required) + too_large) + unavailable) > 0));

CREATE INDEX idempotency_keys_expiry ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX jobs_newest ON public.jobs USING btree (created_at, id);

CREATE INDEX jobs_unfinished ON public.jobs USING btree (created_at) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX latency_age ON public.latency USING btree (step, at);

CREATE INDEX outages_by_end ON public.outages USING btree (ended_at);

CREATE INDEX rejections_of_webhook ON public.rejections USING btree (webhook_id, id);

CREATE INDEX replay_targets_filtered ON public.replay_targets USING btree (agent_id) WHERE (filter IS NOT NULL);

CREATE INDEX sessions_expiry ON public.sessions USING btree (expires_at);

CREATE INDEX sessions_of_user ON public.sessions USING btree (user_id);

CREATE INDEX subscriptions_filtered ON public.subscriptions USING btree (agent_id) WHERE (filter IS NOT NULL);

CREATE INDEX subscriptions_of_agent ON public.subscriptions USING btree (agent_id);

CREATE UNIQUE INDEX users_email ON public.users USING btree (lower(email));

CREATE INDEX webhooks_changed ON public.webhooks USING btree (updated_at) WHERE (deleted_at IS NULL);

CREATE INDEX webhooks_expecting ON public.webhooks USING btree (id) WHERE ((expect_every_seconds IS NOT NULL) AND (deleted_at IS NULL));

CREATE INDEX webhooks_moving ON public.webhooks USING btree (id) WHERE (moving_from IS NOT NULL);

CREATE INDEX webhooks_newest ON public.webhooks USING btree (created_at, id) WHERE (deleted_at IS NULL);

CREATE TRIGGER agents_announce AFTER INSERT OR DELETE OR UPDATE OF name, lookup_id, secret_hash, generation, revoked_at, max_leased ON public.agents FOR EACH ROW EXECUTE FUNCTION public.announce_agent();

CREATE TRIGGER agents_copy AFTER INSERT OR DELETE OR UPDATE OF name, generation, max_leased, revoked_at ON public.agents FOR EACH ROW EXECUTE FUNCTION public.note_cell_copy('agent', 'id');

CREATE TRIGGER api_tokens_announce AFTER DELETE OR UPDATE OF revoked_at, role, expires_at ON public.api_tokens FOR EACH ROW EXECUTE FUNCTION public.announce_user('user_id');

CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER cells_announce AFTER INSERT OR DELETE OR UPDATE OF name, sealed, state ON public.cells FOR EACH ROW EXECUTE FUNCTION public.announce_cell();

CREATE TRIGGER replay_targets_announce AFTER INSERT OR DELETE OR UPDATE OF filter ON public.replay_targets FOR EACH ROW EXECUTE FUNCTION public.announce_agent_of_webhooks();

CREATE TRIGGER replay_targets_copy AFTER INSERT OR DELETE OR UPDATE OF filter, filter_slow, filter_slow_at ON public.replay_targets FOR EACH ROW EXECUTE FUNCTION public.note_cell_copy('agent', 'agent_id');

CREATE TRIGGER sessions_announce AFTER DELETE ON public.sessions FOR EACH ROW EXECUTE FUNCTION public.announce_user('user_id');

CREATE TRIGGER subscriptions_announce AFTER INSERT OR DELETE OR UPDATE OF filter ON public.subscriptions FOR EACH ROW EXECUTE FUNCTION public.announce_agent_of_webhooks();

CREATE TRIGGER subscriptions_copy AFTER INSERT OR DELETE OR UPDATE OF filter, filter_slow, filter_slow_at ON public.subscriptions FOR EACH ROW EXECUTE FUNCTION public.note_cell_copy('agent', 'agent_id');

CREATE TRIGGER subscriptions_enable_fan_out AFTER INSERT ON public.subscriptions FOR EACH STATEMENT EXECUTE FUNCTION public.enable_fan_out();

CREATE TRIGGER users_announce AFTER DELETE OR UPDATE ON public.users FOR EACH ROW EXECUTE FUNCTION public.announce_user('id');

CREATE TRIGGER webhook_secrets_announce AFTER INSERT OR DELETE OR UPDATE OF slot, sealed, expires_at ON public.webhook_secrets FOR EACH ROW EXECUTE FUNCTION public.announce_webhook('webhook_id');

CREATE TRIGGER webhooks_announce AFTER INSERT OR DELETE OR UPDATE OF name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days, signature_scheme, scheme_definition, tolerance_seconds, public_key, verify_token, event_type_from, updated_at, deleted_at, cell, moving_from ON public.webhooks FOR EACH ROW EXECUTE FUNCTION public.announce_webhook('id');

CREATE TRIGGER webhooks_copy AFTER INSERT OR DELETE OR UPDATE OF name, retention_days, deleted_at, cell, moving_from ON public.webhooks FOR EACH ROW EXECUTE FUNCTION public.note_cell_copy('webhook', 'id');

ALTER TABLE ONLY public.alert_requests
    ADD CONSTRAINT alert_requests_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES public.alerts(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_made_by_fkey FOREIGN KEY (made_by) REFERENCES public.api_tokens(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.cell_copies
    ADD CONSTRAINT cell_copies_cell_fkey FOREIGN KEY (cell) REFERENCES public.cells(number) ON DELETE CASCADE;

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
