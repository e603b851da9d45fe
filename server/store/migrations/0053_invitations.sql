-- Invitation links: a new user chooses the password, so that no administrator passes one on. An older release ignores them: a link is refused
-- once the user has a password.
--
-- Compatible from: 42

alter table users
  add column invitation_hash bytea,
  add column invited_until timestamptz,
  add constraint users_invitation_check check ((invitation_hash is null) = (invited_until is null));
comment on column users.invitation_hash is 'SHA-256 of the token of the invitation link; null: no link was made, or it was used or revoked.';
comment on column users.invited_until is 'Until when the invitation link is valid.';
