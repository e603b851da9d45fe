/** Sends spans by OTLP over HTTP, with the packages of OpenTelemetry. Loaded only with OTEL_EXPORTER_OTLP_ENDPOINT. */
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { AlwaysOnSampler, BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { release } from '../files/build.ts';
import type { Settings } from '../settings/read.ts';
import { within } from '../time/every.ts';
import type { SpanContext } from './trace.ts';

/** A span that has ended. Times in Unix milliseconds. */
export interface EndedSpan extends SpanContext {
  name: 'receive' | 'commit' | 'deliver';
  kind: 'server' | 'internal' | 'producer';
  /** Null: it begins a trace. */
  parentSpanId: string | null;
  startMs: number;
  endMs: number;
  attributes: Record<string, string | number>;
  links: readonly SpanContext[];
  /** A short code; null: no error. */
  error: string | null;
}

export interface SpanSink {
  record(span: EndedSpan): void;
  /** Spans that wait for the collector. */
  readonly waiting: number;
  /** Sends what waits, for at most 2 seconds. */
  close(): Promise<void>;
}

interface SinkObserver {
  onSent: (spans: number) => void;
  onFailed: (spans: number, reason: string) => void;
}

/** A batch is sent when it is full, and after this time. */
const EVERY_MS = 1_000;
const BATCH_SPANS = 512;
const EXPORT_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 2_000;
/** More than the number of spans that Spans lets wait. */
const QUEUE_SPANS = 8_192;

const kinds = { server: SpanKind.SERVER, internal: SpanKind.INTERNAL, producer: SpanKind.PRODUCER } as const;
const SAMPLED = { traceFlags: TraceFlags.SAMPLED } as const;

/** Opens the sink that sends spans to OTEL_EXPORTER_OTLP_ENDPOINT in batches. A batch that the collector refuses is dropped and reported. */
export function openSink(settings: Settings, { onSent, onFailed }: SinkObserver): SpanSink {
  let waiting = 0;
  const otlp = new OTLPTraceExporter({
    url: `${settings.OTEL_EXPORTER_OTLP_ENDPOINT!.replace(/\/$/, '')}/v1/traces`,
    headers: headerFields(settings.OTEL_EXPORTER_OTLP_HEADERS ?? ''),
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const exporter: SpanExporter = {
    export: (spans, report) =>
      otlp.export(spans, (result) => {
        waiting -= spans.length;
        if (result.error === undefined) onSent(spans.length);
        else onFailed(spans.length, result.error.message);
        report(result);
      }),
    shutdown: () => otlp.shutdown(),
    forceFlush: () => otlp.forceFlush(),
  };
  let next: EndedSpan | null = null;
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': settings.OTEL_SERVICE_NAME, 'service.version': release() }),
    // Spans has made the decision already.
    sampler: new AlwaysOnSampler(),
    idGenerator: { generateTraceId: () => next!.traceId, generateSpanId: () => next!.spanId },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: QUEUE_SPANS,
        maxExportBatchSize: BATCH_SPANS,
        scheduledDelayMillis: EVERY_MS,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  const tracer = provider.getTracer('weir', release());
  return {
    get waiting() {
      return waiting;
    },
    record(given) {
      const { name, kind, traceId, parentSpanId, startMs, endMs, attributes, links, error } = given;
      const parent =
        parentSpanId === null
          ? ROOT_CONTEXT
          : trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId: parentSpanId, isRemote: true, ...SAMPLED });
      next = given;
      waiting++;
      const made = { kind: kinds[kind], startTime: startMs, attributes };
      const linked = links.map(({ traceId, spanId }) => ({ context: { traceId, spanId, ...SAMPLED } }));
      const span = tracer.startSpan(name, { ...made, links: linked }, parent);
      if (error !== null) span.setStatus({ code: SpanStatusCode.ERROR, message: error });
      span.end(endMs);
    },
    close: () => within(CLOSE_TIMEOUT_MS, provider.shutdown()).catch(() => {}),
  };
}

/** The header fields that the setting lists. @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/#specifying-headers-via-environment-variables */
function headerFields(list: string): Record<string, string> {
  const pairs = list.split(',').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at < 1 ? [] : [[pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())]];
  });
  return Object.fromEntries(pairs);
}
