/** Packages of package.json beside this file. `npm run bench -- peers` alone installs them, so their types are absent from the checks. */
declare module 'bullmq';
declare module 'fastify';
declare module 'graphile-worker';
declare module 'pg-boss';
