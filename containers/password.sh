#!/bin/sh
# Refuses a weak POSTGRES_PASSWORD, by the rules of Weir, before Postgres makes a database that would keep it.
weak() {
  echo "POSTGRES_PASSWORD $1; choose a strong one: openssl rand -hex 24" >&2
  exit 1
}
[ -z "$POSTGRES_PASSWORD_FILE" ] || POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
[ "${#POSTGRES_PASSWORD}" -ge 12 ] || weak 'has fewer than 12 characters'
[ "$POSTGRES_PASSWORD" != "$POSTGRES_USER" ] && [ "$POSTGRES_PASSWORD" != "$POSTGRES_DB" ] || weak 'equals POSTGRES_USER or POSTGRES_DB'
case $POSTGRES_PASSWORD in
  *[Pp][Oo][Ss][Tt][Gg][Rr][Ee][Ss]* | *[Pp][Aa][Ss][Ss][Ww][Oo][Rr][Dd]*) weak 'contains the word postgres or password' ;;
esac
