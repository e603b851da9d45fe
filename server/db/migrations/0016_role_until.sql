-- What an identity provider said of a role does not hold for ever.

alter table users add column role_until timestamptz;
comment on column users.role_until is 'So long holds what the identity provider last said of the role; API tokens rest from then until the next sign-in. Null: the role is Weir''s own.';
update users set role_until = now() + interval '30 days' where issuer is not null and password_hash is null;
