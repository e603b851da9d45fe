/** Settings: monitoring. */
import { z } from 'zod';
import { conditionTable } from '../../../model/conditions.ts';
import { count, isAlertSecret, isAlertUrl, isHeaderList, type Setting, samplers, text } from '../values.ts';

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
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: text.refine(isAlertUrl),
    fallback: null,
    allowed: 'an http or https URL without user, password and fragment, at most 2000 characters',
    meaning: 'traces are sent here by OTLP over HTTP, to its path /v1/traces; unset: none are made',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    schema: text.refine(isHeaderList),
    fallback: null,
    allowed: 'names and values, percent-encoded, such as api-key=abc,tenant=7',
    meaning: 'header fields of the requests with traces',
    secret: true,
  },
  OTEL_SERVICE_NAME: {
    schema: text,
    fallback: 'weir',
    allowed: 'a name',
    meaning: 'name of this service in traces',
  },
  OTEL_TRACES_SAMPLER: {
    schema: z.enum(samplers),
    fallback: 'parentbased_always_on',
    allowed: samplers.join(', '),
    meaning:
      "which events are traced; parentbased: as the flag of the sender's traceparent says, on verified requests only",
  },
  OTEL_TRACES_SAMPLER_ARG: {
    schema: z
      .string()
      .regex(/^\d(\.\d+)?$/)
      .transform(Number)
      .refine((ratio) => ratio <= 1),
    fallback: '1',
    allowed: 'a number from 0 to 1',
    meaning: 'share of the events that traceidratio traces',
  },
} as const satisfies Record<string, Setting>;
