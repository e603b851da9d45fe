/** /api/v1/status: how this installation is set up, how it does, and what `weir doctor` says of it. */
import { z } from 'zod';
import { done, operation } from '../api/operation.ts';
import type { Settings } from '../config.ts';
import { describeConninfo } from '../db/conninfo.ts';
import type { Database } from '../db/pool.ts';
import { readServerState } from '../db/queries/server-state.ts';
import type { Doctor } from '../doctor/ask.ts';
import { processSchema } from '../live/counters.ts';
import type { History } from '../live/history.ts';
import { type Setting, settingTable } from '../setting-table.ts';
import { readVersions } from './versions.ts';

const settingSchema = z.object({
  name: z.string(),
  value: z.string().nullable().describe('in force; null when it is unset, and always for a secret'),
  is_set: z.boolean().describe('false where Weir goes without it'),
  default: z.string().nullable().describe('for people'),
  secret: z.boolean(),
  meaning: z.string(),
});

const checkSchema = z.object({
  name: z.string(),
  state: z.enum(['ok', 'advice', 'problem']),
  finding: z.string(),
  mend: z.string().nullable(),
});

export const statusSchema = z.object({
  versions: z.object({
    weir: z.string().nullable(),
    node: z.string(),
    uwebsockets: z.string().nullable(),
    postgres: z.string(),
  }),
  started_at: z.iso.datetime().nullable().describe('of Weir on this machine; null in its first second'),
  uptime_seconds: z.number().nullable(),
  processes: z.array(processSchema).describe('of this machine'),
  database: z.object({
    kind: z.enum(['embedded', 'server']),
    place: z.string().describe('host, port and name, without user and password'),
    bytes: z.number().describe('on disk, indexes included'),
    connections: z.number(),
    connections_max: z.number(),
  }),
  schema: z.object({ version: z.number(), pending: z.array(z.string()) }),
  partitions: z
    .object({ first: z.iso.date(), last: z.iso.date() })
    .nullable()
    .describe('days for which events can be stored, and are kept'),
  retention_days: z.number(),
  rate_limit_store: z.object({ backend: z.enum(['memory', 'shared']), state: z.enum(['ok', 'degraded']) }),
  settings: z.array(settingSchema),
  doctor: z.object({
    state: z.enum(['done', 'running', 'failed']).describe('running: ask again in some seconds'),
    at: z.iso.datetime().nullable(),
    checks: z.array(checkSchema),
  }),
});

interface StatusParts {
  settings: Settings;
  conninfo: string;
  database: Database;
  history: History;
  doctor: Doctor;
  rateLimitStore: () => 'ok' | 'degraded';
}

export type StatusOperations = ReturnType<typeof statusOperations>;

export function statusOperations(parts: StatusParts) {
  const { settings, conninfo, database, history, doctor } = parts;
  const versions = readVersions();
  return {
    showStatus: operation({
      answers: { 200: statusSchema },
      handle: async () => {
        const [server, checkup] = await Promise.all([readServerState(database), doctor.ask()]);
        const startedAt = history.latest?.started_at ?? null;
        return done(200, {
          versions: { ...versions, postgres: server.version },
          started_at: startedAt,
          uptime_seconds: startedAt && Math.round((Date.now() - Date.parse(startedAt)) / 1000),
          processes: history.latest?.processes ?? [],
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
          doctor: checkup,
        });
      },
    }),
  };
}

/** Every row of the table with the value in force; of a secret only whether it is set. */
export function describeSettings(settings: Settings): z.input<typeof settingSchema>[] {
  return Object.entries<Setting>(settingTable).map(([name, { secret = false, fallback, fallbackShown, meaning }]) => {
    const value = settings[name as keyof typeof settingTable];
    const text = value === undefined ? null : Array.isArray(value) ? value.join(', ') : String(value);
    return {
      name,
      value: secret ? null : text,
      is_set: text !== null && text !== '',
      default: fallbackShown ?? fallback,
      secret,
      meaning,
    };
  });
}
