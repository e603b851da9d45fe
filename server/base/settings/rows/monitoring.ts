/** Settings: monitoring. */
import { z } from 'zod';
import { conditionTable } from '../../../model/conditions.ts';
import {
  count,
  fixed,
  isAlertSecret,
  isHeaderList,
  listenHost,
  oneOf,
  optionalText,
  row,
  type Setting,
  samplers,
  secret,
  targetUrl,
  trimmedText,
} from '../values.ts';

export const monitoringSettings = {
  METRICS_HOST: fixed(listenHost)('listen address of /metrics'),
  METRICS_PORT: fixed(count(9464, 1, 65_535))(
    'port of /metrics, not PORT on the same address: Prometheus text, summed over processes',
  ),
  LOG_LEVEL: {
    schema: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
    fallback: 'info',
    allowed: 'a pino level (trace, debug, info, warn, error, fatal, silent)',
    meaning: 'JSON lines on stdout, readable lines on a terminal; debug logs every request',
  },
  REQUEST_LOG_SLOW_MS: row(count(1000, 0, 3_600_000))(
    'requests that take this long are logged as slow; intended waits, such as long polling, do not count; 0 disables it',
  ),
  ALERT_URL: secret(targetUrl)('alerts are posted here when they begin and when they end; unset: they are only shown'),
  ALERT_SECRET: {
    schema: z.string().refine(isAlertSecret),
    allowed: '24 to 64 bytes in base64, with the prefix whsec_ (echo whsec_$(openssl rand -base64 32))',
    meaning: 'signs the requests to ALERT_URL as Standard Webhooks says; unset: they have no signature',
    secret: true,
  },
  ALERT_PRIVATE_NETWORKS: row(oneOf(['refuse', 'allow'], 'refuse'))(
    'whether ALERT_URL may be on loopback or a private network; link-local addresses are always refused',
  ),
  ALERT_PENDING_SECONDS: row(count(conditionTable.pending.threshold, 10, 604_800))(
    'an alert begins when the oldest pending delivery of an agent has waited for longer',
  ),
  ALERT_REJECTIONS_PER_MINUTE: row(count(conditionTable.rejections.reported.threshold, 1, 1_000_000))(
    'an alert begins when more requests to a webhook are rejected in a minute',
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: row(targetUrl)(
    'traces are sent here by OTLP over HTTP, to its path /v1/traces; unset: none are made',
  ),
  OTEL_EXPORTER_OTLP_HEADERS: {
    schema: trimmedText.refine(isHeaderList),
    allowed: 'names and values, percent-encoded, such as api-key=abc,tenant=7',
    meaning: 'header fields of the requests with traces',
    secret: true,
  },
  OTEL_SERVICE_NAME: row({ ...optionalText('a name'), fallback: 'weir' })('name of this service in traces'),
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
