/** /api/v1/counters, /api/v1/stream: live counters and events; /api/v1/status: settings and state, with the report of `weir doctor`. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { build } from '../../../base/files/build.ts';
import type { Settings } from '../../../base/settings/read.ts';
import { settingTable } from '../../../base/settings/table.ts';
import type { Setting } from '../../../base/settings/values.ts';
import { within } from '../../../base/time/every.ts';
import { recordId } from '../../../model/fields.ts';
import { noDeaths, processDeathsSchema } from '../../../model/machines.ts';
import { describeConninfo } from '../../../store/connect/conninfo.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { isTimedId } from '../../../store/ids.ts';
import { readServerState } from '../../../store/queries/server-state.ts';
import { type History, liveSchema, processSchema, secondSchema } from '../../live/counters.ts';
import { CONTENT_TYPE, type Streams } from '../../live/streams.ts';
import { done, operation } from '../operation.ts';
import { eventId } from '../paging.ts';
import type { AskDoctor } from './doctor.ts';

const countersSchema = z.object({
  latest: liveSchema.nullable().describe('null in the first second after the start'),
  history: z.array(secondSchema).describe('up to five minutes, oldest first'),
});

const streamQuery = z.strictObject({
  webhook_id: recordId.optional().describe('only events of this webhook'),
  after: eventId
    .optional()
    .describe(
      'id of the newest event that the client has; the header Last-Event-ID takes precedence. Events of the 15 s before it are sent again.',
    ),
});

/** Counters of this machine, and the stream of counters and events. */
export function liveOperations({ history, streams }: { history: History; streams: Streams }) {
  return {
    showCounters: operation({
      answers: { 200: countersSchema },
      handle: async () => done(200, { latest: history.latest, history: [...history.seconds] }),
    }),

    stream: operation({
      query: streamQuery,
      answers: { 200: null },
      bytes: { contentTypes: [CONTENT_TYPE] },
      problems: ['streams_full', 'user_streams_full'],
      handle: async ({ who, query, exchange }) => {
        const lastEventId = exchange.header('last-event-id');
        const after = lastEventId !== undefined && isTimedId(lastEventId) ? lastEventId.toLowerCase() : query.after;
        return streams.open(exchange, who, { webhookId: query.webhook_id ?? null, after: after ?? null });
      },
    }),
  };
}

const settingSchema = z.object({
  name: z.string().describe('name of the environment variable'),
  value: z.string().nullable().describe('current value; null if it is unset, and always for a secret'),
  is_set: z.boolean().describe('false: the setting is unset and has no default'),
  default: z.string().nullable().describe('default value: as it is computed here, or in words'),
  secret: z.boolean().describe('true: its value is not shown'),
  meaning: z.string().describe('what it sets'),
});

const checkSchema = z.object({
  name: z.string().describe('name of the check'),
  state: z.enum(['ok', 'advice', 'problem']).describe('advice: works, but can be improved'),
  finding: z.string().describe('result of the check'),
  fix: z.string().nullable().describe('how to fix it; null: nothing to fix'),
});

export const statusSchema = z.object({
  versions: z
    .object({
      weir: z.string().nullable().describe('null: unknown'),
      commit: z.string().describe('commit of Weir, or sources- and a hash of its sources'),
      node: z.string().describe('Node.js'),
      uwebsockets: z.string().nullable().describe('uWebSockets.js; null: unknown'),
      postgres: z.string().describe('the database server'),
    })
    .describe('versions of the components'),
  started_at: z.iso.datetime().nullable().describe('start of Weir on this machine; null in its first second'),
  uptime_seconds: z.number().nullable().describe('since started_at'),
  processes: z.array(processSchema).describe('processes of this machine'),
  process_deaths: processDeathsSchema,
  database: z
    .object({
      kind: z.enum(['embedded', 'server']).describe('server: configured by DATABASE_URL or POSTGRES_*'),
      place: z.string().describe('host, port and name, without user and password'),
      bytes: z.number().describe('size on disk, including indexes'),
      connections: z.number().describe('connections of all clients of the server'),
      connections_max: z.number().describe('the setting max_connections of the server'),
    })
    .describe('the database of Weir'),
  schema: z
    .object({
      version: z.number().describe('number of the newest applied migration'),
      pending: z.array(z.string()).describe('migrations that are not applied yet'),
    })
    .describe('state of the database schema'),
  partitions: z
    .object({ first: z.iso.date().describe('oldest day (UTC)'), last: z.iso.date().describe('newest day (UTC)') })
    .nullable()
    .describe('days that have partitions'),
  retention_days: z.number().describe('the setting RETENTION_DAYS'),
  rate_limit_store: z
    .object({
      backend: z.enum(['memory', 'shared']).describe('the setting RATE_LIMIT_BACKEND'),
      state: z.enum(['ok', 'degraded']).describe('degraded: requests are allowed without being counted'),
    })
    .describe('the rate-limit store'),
  settings: z.array(settingSchema).describe('every setting'),
  doctor: z
    .object({
      state: z.enum(['done', 'running', 'failed']).describe('running: repeat the request in a few seconds'),
      at: z.iso.datetime().nullable().describe('when the checks were completed'),
      checks: z.array(checkSchema).describe('results of the checks'),
    })
    .describe('findings of weir doctor'),
});

/** Longest wait of one caller. A later call gets the result. */
const WAIT_SECONDS_MAX = 5;

const statusQuery = z.strictObject({
  wait_seconds: z.coerce
    .number()
    .min(0)
    .max(WAIT_SECONDS_MAX)
    .default(WAIT_SECONDS_MAX)
    .describe('longest wait for the findings of weir doctor'),
});

/** A result that the primary has already arrives within this time. */
const KNOWN_MS = 150;

interface StatusParts {
  settings: Settings;
  conninfo: string;
  database: Database;
  history: History;
  askDoctor: AskDoctor;
  rateLimitStore: () => 'ok' | 'degraded';
}

/** Secrets are never part of the answer. */
export function statusOperations(parts: StatusParts) {
  const { settings, conninfo, database, history, askDoctor } = parts;
  const versions = readVersions();
  return {
    showStatus: operation({
      query: statusQuery,
      answers: { 200: statusSchema },
      handle: async ({ query }) => {
        const waitMs = Math.max(KNOWN_MS, query.wait_seconds * 1000);
        const [server, checkup] = await Promise.all([readServerState(database), within(waitMs, askDoctor())]);
        const startedAt = history.latest?.started_at ?? null;
        return done(200, {
          versions: { ...versions, postgres: server.version },
          started_at: startedAt,
          uptime_seconds: startedAt === null ? null : Math.round((Date.now() - Date.parse(startedAt)) / 1000),
          processes: history.latest?.processes ?? [],
          process_deaths: history.latest?.process_deaths ?? noDeaths,
          database: {
            kind: settings.database.kind,
            place: describeConninfo(conninfo),
            bytes: server.bytes,
            connections: server.connections,
            connections_max: server.connectionsMax,
          },
          schema: { version: server.schemaVersion, pending: server.pending },
          partitions: server.partitions,
          retention_days: settings.RETENTION_DAYS,
          rate_limit_store: { backend: settings.RATE_LIMIT_BACKEND, state: parts.rateLimitStore() },
          settings: describeSettings(settings),
          doctor: { state: 'running' as const, at: null, ...checkup, checks: [...(checkup?.checks ?? [])] },
        });
      },
    }),
  };
}

/** Every row of the settings table with its current value; for a secret only whether it is set. */
export function describeSettings(settings: Settings): z.input<typeof settingSchema>[] {
  return Object.entries<Setting>(settingTable).map(([name, { secret = false, fallback, fallbackShown, meaning }]) => {
    const value = settings[name as keyof typeof settingTable];
    const computed = settings.computedDefaults[name as keyof typeof settingTable];
    const text = value === undefined ? null : Array.isArray(value) ? value.join(', ') : String(value);
    return {
      name,
      value: secret ? null : text,
      is_set: text !== null && text !== '',
      default: computed === undefined ? (fallbackShown ?? fallback ?? null) : String(computed),
      secret,
      meaning,
    };
  });
}

function readVersions() {
  const uwebsockets = dirname(createRequire(import.meta.url).resolve('uWebSockets.js'));
  const { version } = JSON.parse(readFileSync(join(uwebsockets, 'package.json'), 'utf8')) as { version: string };
  const { version: weir, commit } = build();
  return { weir, commit, node: process.versions.node, uwebsockets: version };
}
