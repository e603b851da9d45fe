#!/bin/sh
# Gives each of several containers on one volume a DATA_DIR of its own: the first that no container holds, with what an earlier container
# left there, such as its spool. The first is that of a single container. The kernel holds the lock and releases it with the container.
set -eu
volume=/var/lib/weir
directory=$volume
n=1
while :; do
  mkdir -p -m 0700 "$directory"
  exec 9>"$directory/container.lock"
  if flock --nonblock 9; then break; fi
  n=$((n + 1))
  directory=$volume/container-$n
done
# DATA_DIR names this link, so that commands in the container find the same directory.
ln -sfn "$directory" "$DATA_DIR"
exec "$@"
