/**
 * Traces of events, for OpenTelemetry: the spans `receive`, `commit` and `deliver`. Nothing of a trace is stored. The trace id is that of the
 * sender's `traceparent`, otherwise the id of the event. The id of the span `receive` is the last 8 bytes of the event's id. So any process
 * can continue the trace of an event that it delivers later.
 */
import type { Settings } from '../settings/read.ts';
import type { Sampler } from '../settings/values.ts';
import type { EndedSpan, SpanSink } from './otlp.ts';
import { Throttle } from './throttle.ts';
import { contextOf, fractionOf, newContext, type SpanContext, spanIdOf, traceparentOf } from './trace.ts';

interface SpanOptions {
  sampler: Sampler;
  /** Share of traces of the samplers with a ratio, 0 to 1. */
  ratio: number;
  /** Counts spans that are not recorded. */
  onDropped: (reason: 'limited' | 'queue_full') => void;
  /** Maximum spans of a process in a second; by default SECOND_MAX. */
  secondMax?: number;
}

/** Spans of a process in a second. */
const SECOND_MAX = 1_000;
/** Spans of a process that wait for the collector. */
const WAITING_MAX = 4_096;
/** Links of a span `commit`. */
const LINKS_MAX = 128;
/** Statuses that get no span: metrics count a flood of them, and its spans would displace those of stored events. */
const untraced: ReadonlySet<number> = new Set([404, 429]);

/** The webhook of a span. Without a check of signatures, only its secret id protects a webhook, so the attributes leave that id out. */
interface TracedWebhook {
  id: string;
  isVerified: boolean;
}

/** A request with a span, from the creation of its row to the end of the request. */
interface Begun extends SpanContext {
  parentSpanId: string | null;
  webhook: TracedWebhook;
  commit: SpanContext | null;
}

interface TracedExchange {
  readonly method: string;
  readonly route: string;
  readonly parameters: readonly string[];
  readonly status: number;
  readonly aborted: boolean;
  readonly problemCode: string | null;
  readonly eventId: string | null;
  readonly clock: { readonly startedMs: number };
  traceId: string | null;
  header(name: string): string | undefined;
}

interface TracedDelivery {
  id: string;
  attempt: number;
  event: { id: string; webhook_id: string; webhook_name: string; headers: Readonly<Record<string, string>> };
}

export class Spans {
  readonly #sink: SpanSink;
  readonly #options: SpanOptions;
  readonly #isParentBased: boolean;
  /** Share of traces that are recorded, among those without a trusted parent. */
  readonly #share: number;
  readonly #secondMax: number;
  /** By request, not by request id: a sender may give several requests the same id. */
  readonly #begun = new Map<TracedExchange, Begun>();
  /** By the id of the event: the same Uint8Array as in its row. */
  readonly #made = new WeakMap<Uint8Array, Begun>();
  #second = 0;
  #inSecond = 0;
  isVerified: (webhookId: string) => boolean = () => false;

  constructor(sink: SpanSink, options: SpanOptions) {
    this.#sink = sink;
    this.#options = options;
    const { sampler, ratio, secondMax = SECOND_MAX } = options;
    this.#isParentBased = sampler.startsWith('parentbased_');
    this.#share = sampler.endsWith('_off') ? 0 : sampler.endsWith('_on') ? 1 : ratio;
    this.#secondMax = secondMax;
  }

  /** A verified request becomes an event. @param id of the event */
  begin(exchange: TracedExchange, webhook: TracedWebhook, id: Uint8Array): void {
    // The exchange of a client that has left is already finished.
    if (exchange.aborted) return;
    const parent = traceparentOf(exchange.header('traceparent'));
    if (!this.#samples(parent, webhook.isVerified, () => ((id[9]! << 16) | (id[10]! << 8) | id[11]!) / 2 ** 24)) return;
    const hex = Buffer.from(id).toString('hex');
    const context = contextOf(hex, parent);
    exchange.traceId = context.traceId;
    const begun = { ...context, parentSpanId: spanIdOf(parent), webhook, commit: null };
    this.#begun.set(exchange, begun);
    this.#made.set(id, begun);
  }

  /** Rows of requests were committed. @param ms duration */
  committed(rows: readonly { id: Uint8Array }[], ms: number, cell: number): void {
    if (this.#begun.size === 0) return;
    const linked = rows.flatMap(({ id }) => this.#made.get(id) ?? []);
    if (linked.length === 0) return;
    const context = newContext();
    for (const begun of linked) begun.commit = context;
    const endMs = Date.now();
    this.#record({
      ...context,
      name: 'commit',
      kind: 'internal',
      parentSpanId: null,
      startMs: endMs - ms,
      endMs,
      attributes: { 'weir.events': rows.length, 'weir.cell': cell },
      links: linked.slice(0, LINKS_MAX),
      error: null,
    });
  }

  /** A request to a webhook has ended. Call it before it is logged. */
  finished(exchange: TracedExchange): void {
    const { status, problemCode, eventId } = exchange;
    const begun = (this.#begun.size > 0 && this.#begun.get(exchange)) || this.#refused(exchange);
    if (begun === null) return;
    this.#begun.delete(exchange);
    const endMs = Date.now();
    this.#record({
      traceId: begun.traceId,
      spanId: begun.spanId,
      name: 'receive',
      kind: 'server',
      parentSpanId: begun.parentSpanId,
      startMs: endMs - (performance.now() - exchange.clock.startedMs),
      endMs,
      attributes: {
        'http.request.method': exchange.method,
        'http.route': exchange.route.replace(/:(\w+)/g, '{$1}'),
        ...(exchange.aborted ? {} : { 'http.response.status_code': status }),
        ...(problemCode !== null && { 'error.type': problemCode }),
        ...(begun.webhook.isVerified && { 'weir.webhook.id': begun.webhook.id }),
        ...(eventId !== null && { 'weir.event.id': eventId }),
      },
      links: begun.commit === null ? [] : [begun.commit],
      error: exchange.aborted ? 'aborted' : problemCode,
    });
  }

  /** The span of a request that did not become an event; null: no span is recorded. */
  #refused(exchange: TracedExchange): Begun | null {
    const { eventId, status } = exchange;
    if (eventId !== null || status < 400 || untraced.has(status)) return null;
    // The sender is not verified, so its sampling flag is ignored.
    if (!this.#samples(undefined, false, Math.random)) return null;
    const parent = traceparentOf(exchange.header('traceparent'));
    const { traceId, spanId } = newContext();
    exchange.traceId = parent?.slice(3, 35) ?? traceId;
    const id = exchange.parameters[0]!.toLowerCase();
    const webhook = { id, isVerified: this.isVerified(id) };
    return { traceId: exchange.traceId, spanId, parentSpanId: spanIdOf(parent), webhook, commit: null };
  }

  /**
   * An agent gets a delivery.
   * @param startMs Unix milliseconds, when its claim began
   * @returns `traceparent` for the work on it
   */
  delivered({ id, attempt, event }: TracedDelivery, agentId: string, startMs: number): string {
    const hex = event.id.replaceAll('-', '');
    const parent = traceparentOf(event.headers.traceparent);
    const isVerified = this.isVerified(event.webhook_id);
    const isSampled = this.#samples(parent, isVerified, () => fractionOf(hex));
    const { traceId, spanId: parentSpanId } = contextOf(hex, parent);
    const { spanId } = newContext();
    if (isSampled)
      this.#record({
        traceId,
        spanId,
        name: 'deliver',
        kind: 'producer',
        parentSpanId,
        startMs,
        endMs: Date.now(),
        attributes: {
          'weir.event.id': event.id,
          'weir.delivery.id': id,
          'weir.delivery.attempt': attempt,
          'weir.agent.id': agentId,
          'weir.webhook.name': event.webhook_name,
          ...(isVerified && { 'weir.webhook.id': event.webhook_id }),
        },
        links: [],
        error: null,
      });
    return `00-${traceId}-${spanId}-0${Number(isSampled)}`;
  }

  close(): Promise<void> {
    return this.#sink.close();
  }

  /**
   * Whether spans are recorded; the same for all spans of one event. The sender's flag and trace id decide on verified requests only:
   * otherwise any client could have all its requests sampled.
   * @param fraction random number from 0 to 1, exclusive, of the event
   */
  #samples(parent: string | undefined, isVerified: boolean, fraction: () => number): boolean {
    if (parent === undefined || !isVerified) return this.#share === 1 || (this.#share > 0 && fraction() < this.#share);
    if (this.#isParentBased) return (Number.parseInt(parent.slice(-1), 16) & 1) === 1;
    return fractionOf(parent.slice(3, 35)) < this.#share;
  }

  #record(span: EndedSpan): void {
    const second = Math.floor(span.endMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#inSecond = 0;
    }
    if (this.#inSecond >= this.#secondMax) return this.#options.onDropped('limited');
    if (this.#sink.waiting >= WAITING_MAX) return this.#options.onDropped('queue_full');
    this.#inSecond++;
    this.#sink.record(span);
  }
}

const FAILED_EVERY_MS = 60_000;

/** Opens tracing. Null without OTEL_EXPORTER_OTLP_ENDPOINT: then no package of OpenTelemetry is loaded. */
export async function openSpans(
  settings: Settings,
  count: (outcome: 'sent' | 'failed' | 'limited' | 'queue_full', spans: number) => void,
  onFailed: (reason: string, leftOut: number) => void,
): Promise<Spans | null> {
  if (settings.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return null;
  const failures = new Throttle<string>(FAILED_EVERY_MS, onFailed);
  const { openSink } = await import('./otlp.ts');
  const sink = openSink(settings, {
    onSent: (spans) => count('sent', spans),
    onFailed: (spans, reason) => {
      count('failed', spans);
      failures.add(reason);
    },
  });
  const { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: ratio } = settings;
  return new Spans(sink, { sampler, ratio, onDropped: (reason) => count(reason, 1) });
}
