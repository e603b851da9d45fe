# The base images are named by tag, which a registry can move. To pin one, append its digest to the FROM lines (image:tag@sha256:...), as
# `docker buildx imagetools inspect node:24-trixie` and `docker buildx imagetools inspect node:24-trixie-slim` print it.
#
# Node 24 on Debian 13: uWebSockets.js's binary for Node 24 needs glibc 2.38, and Debian 12 has 2.36.
FROM node:24-trixie AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential libpq-dev python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/weir
COPY package.json package-lock.json ./
# The headers of Node come with the image: the Postgres client compiles without fetching them.
RUN npm_config_nodedir=/usr/local npm ci --include=dev --no-fund --no-audit
COPY tsconfig.json LICENSE ./
COPY server server
COPY workers workers
COPY views views
COPY bench bench
RUN node server/setup/server-binary.mjs \
 && node server/setup/build.mjs \
 && npm prune --omit=dev --no-fund --no-audit

# For the profile `failover` of compose.yaml alone.
FROM debian:13-slim AS patroni
RUN apt-get update \
 && apt-get install -y --no-install-recommends patroni etcd-server postgresql \
 && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/*
USER postgres

FROM node:24-trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libpq5 postgresql-client \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 900 weir \
 && useradd --system --uid 900 --gid weir --home-dir /var/lib/weir --shell /usr/sbin/nologin weir \
 && install -d -o weir -g weir -m 0700 /var/lib/weir \
 && ln -s /srv/weir/dist/server/cli/weir.js /usr/local/bin/weir
WORKDIR /srv/weir
COPY --from=build /srv/weir/node_modules node_modules
COPY --from=build /srv/weir/dist dist
COPY package.json LICENSE ./
USER weir
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/var/lib/weir
VOLUME /var/lib/weir
EXPOSE 8080 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 8080}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# The exec form, without a shell or npm between: TERM reaches the primary itself, which drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "dist/server/cli/weir.js"]
CMD ["start"]
