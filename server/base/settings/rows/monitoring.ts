/** Settings: monitoring. */
import { z } from 'zod';
import { conditionTable } from '../../../model/conditions.ts';
import { count, isAlertSecret, isAlertUrl, type Setting, text } from '../values.ts';

export const monitoringSettings = {
  METRICS_HOST: {
    schema: text,
    fallback: '127.0.0.1',
    allowed: 'an IP address or a host name',
    meaning: 'listen address of /metrics',
    fixed: true,
  },
  METRICS_PORT: {
    ...count(9464, 1, 65_535, 'port of /metrics: Prometheus text, summed over processes'),
    fixed: true,
  },
  LOG_LEVEL: {
    schema: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
    fallback: 'info',
    allowed: 'a pino level (trace, debug, info, warn, error, fatal, silent)',
    meaning: 'JSON lines on stdout, readable lines on a terminal; debug logs every request',
  },
  REQUEST_LOG_SLOW_MS: count(
    1000,
    0,
    3_600_000,
    'requests that take this long are logged as slow; intended waits, such as long polling, do not count; 0 disables it',
  ),
  ALERT_URL: {
    schema: text.refine(isAlertUrl),
    fallback: null,
    allowed: 'an http or https URL without user, password and fragment, at most 2000 characters',
    meaning: 'alerts are posted here when they begin and when they end; unset: they are only shown',
    secret: true,
  },
  ALERT_SECRET: {
    schema: z.string().refine(isAlertSecret),
    fallback: null,
    allowed: '24 to 64 bytes in base64, with the prefix whsec_ (echo whsec_$(openssl rand -base64 32))',
    meaning: 'signs the requests to ALERT_URL as Standard Webhooks says; unset: they have no signature',
    secret: true,
  },
  ALERT_PRIVATE_NETWORKS: {
    schema: z.enum(['refuse', 'allow']),
    fallback: 'refuse',
    allowed: 'refuse or allow',
    meaning: 'whether ALERT_URL may be on loopback or a private network; link-local addresses are always refused',
  },
  ALERT_PENDING_SECONDS: count(
    conditionTable.pending.threshold,
    10,
    604_800,
    'an alert begins when the oldest pending delivery of an agent has waited for longer',
  ),
  ALERT_REJECTIONS_PER_MINUTE: count(
    conditionTable.rejections.reported.threshold,
    1,
    1_000_000,
    'an alert begins when more requests to a webhook are rejected in a minute',
  ),
} as const satisfies Record<string, Setting>;
