-- OAuth for /mcp: clients that registered themselves, and what people let clients do. A grant is a row of api_tokens with a row here: it is
-- listed and revoked as an API token. As the secret_hash of api_tokens is random for it, it opens /mcp alone, also in an earlier release.
--
-- Compatible from: 1

create table oauth_clients (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  redirect_uris text[] not null check (cardinality(redirect_uris) between 1 and 10),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
comment on table oauth_clients is
  'Clients by dynamic registration (RFC 7591). Those with a client id metadata document have no row.';
comment on column oauth_clients.id is 'The client id, random.';
comment on column oauth_clients.name is 'As the client names itself.';
comment on column oauth_clients.redirect_uris is 'Where a person may be sent with a code.';
comment on column oauth_clients.created_at is 'Time of the registration.';
comment on column oauth_clients.expires_at is 'A day after the registration; with a grant, 90 days after its last tokens.';
create index oauth_clients_expiry on oauth_clients (expires_at);
comment on index oauth_clients_expiry is 'For maintenance, and for the client that a new one replaces.';

create table oauth_grants (
  token_id uuid primary key references api_tokens (id) on delete cascade,
  client_id text not null check (length(client_id) <= 500),
  agent_id uuid references agents (id) on delete cascade,
  resource text not null,
  redirect_uri text not null,
  code_hash bytea not null check (length(code_hash) = 32),
  code_challenge text not null check (length(code_challenge) = 43),
  code_used_at timestamptz,
  access_hash bytea check (length(access_hash) = 32),
  access_expires_at timestamptz,
  refresh_hash bytea check (length(refresh_hash) = 32),
  constraint oauth_grants_issued_check
    check (num_nulls(code_used_at, access_hash, access_expires_at, refresh_hash) in (0, 4))
);
comment on table oauth_grants is 'What a person lets a client do at /mcp, with the code and the tokens that the client got for it.';
comment on column oauth_grants.token_id is 'Row of api_tokens with the person, the role that the person must have, and the end of the grant.';
comment on column oauth_grants.client_id is 'Row of oauth_clients, or the address of a client id metadata document.';
comment on column oauth_grants.agent_id is 'The client acts as this agent; null: as the person, with the role of the token.';
comment on column oauth_grants.resource is 'What the tokens are for (RFC 8707): the address of /mcp at the time of the grant.';
comment on column oauth_grants.redirect_uri is 'Where the code was sent. The exchange of the code must state the same.';
comment on column oauth_grants.code_hash is 'SHA-256 of the secret part of the authorization code.';
comment on column oauth_grants.code_challenge is 'PKCE: SHA-256 of the verifier, in base64url.';
comment on column oauth_grants.code_used_at is 'When the code was exchanged; null: not yet.';
comment on column oauth_grants.access_hash is 'SHA-256 of the secret part of the current access token.';
comment on column oauth_grants.access_expires_at is 'End of the current access token.';
comment on column oauth_grants.refresh_hash is 'SHA-256 of the secret part of the only refresh token that is not used yet.';
create index oauth_grants_agent on oauth_grants (agent_id) where agent_id is not null;
comment on index oauth_grants_agent is 'For the clients that act as an agent.';
