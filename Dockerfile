# The base images are named by tag, which a registry can move. To pin one, append its digest to the FROM lines (image:tag@sha256:...), as
# `docker buildx imagetools inspect node:24-trixie` and `docker buildx imagetools inspect debian:13-slim` print it.
#
# Node 24 on Debian 13: uWebSockets.js's binary for Node 24 needs glibc 2.38, and Debian 12 has 2.36.
#
# The packages depend on package-lock.json alone: a change of the sources repeats the stage `build` and the last COPY.
FROM node:24-trixie AS packages
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential libpq-dev python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/weir
COPY package.json package-lock.json ./
# The headers of Node come with the image: the Postgres client compiles without fetching them.
RUN npm_package_config_node_gyp_nodedir=/usr/local npm ci --include=dev --no-fund --no-audit

FROM packages AS build
COPY tsconfig.json LICENSE ./
COPY server server
COPY workers workers
COPY views views
COPY bench bench
RUN node server/operate/setup/server-binary.mjs && node server/operate/setup/build.mjs

# What runs: without the packages that the build has bundled, and the binaries for other platforms.
FROM packages AS runtime
COPY server/operate/setup/runtime-packages.mjs server/operate/setup/prune-packages.mjs server/operate/setup/
RUN node server/operate/setup/prune-packages.mjs

# pg_dump, pg_restore and psql. Debian's package brings Perl for a wrapper that the image does not use.
FROM debian:13-slim AS postgres-client
RUN apt-get update \
 && apt-get install -y --no-install-recommends postgresql-client

# For compose.failover.yaml alone.
FROM debian:13-slim AS patroni
RUN apt-get update \
 && apt-get install -y --no-install-recommends patroni python3-etcd etcd-server postgresql \
 && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/*
USER postgres

# For compose.scale.yaml alone.
FROM debian:13-slim AS proxy
RUN apt-get update \
 && apt-get install -y --no-install-recommends haproxy \
 && rm -rf /var/lib/apt/lists/*
USER haproxy

FROM debian:13-slim AS weir
# tini is process 1, which the kernel spares every signal without a handler: a TERM while Node starts would be lost.
RUN apt-get update \
 && apt-get install -y --no-install-recommends libpq5 libreadline8t64 libstdc++6 tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 900 weir \
 && useradd --system --uid 900 --gid weir --home-dir /var/lib/weir --shell /usr/sbin/nologin weir \
 && install -d -o weir -g weir -m 0700 /var/lib/weir \
 && ln -s /srv/weir/dist/server/cli/weir.js /usr/local/bin/weir
COPY --from=packages /usr/local/bin/node /usr/local/bin/
COPY --from=postgres-client /usr/lib/postgresql/17/bin/pg_dump /usr/lib/postgresql/17/bin/pg_restore /usr/lib/postgresql/17/bin/psql /usr/local/bin/
WORKDIR /srv/weir
COPY --chmod=755 containers/data-dir.sh /usr/local/bin/weir-data-dir
COPY package.json LICENSE ./
COPY --from=runtime /srv/weir/node_modules node_modules
COPY --from=build /srv/weir/dist dist
USER weir
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/var/lib/weir
VOLUME /var/lib/weir
EXPOSE 8080 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 8080}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# The exec form, without a shell or npm between: TERM reaches the primary, which drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "node", "dist/server/cli/weir.js"]
CMD ["start"]
