/** Traces of events: from the sender, through Weir, to the work of an agent. */
import { context, propagation, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  InMemorySpanExporter,
  SimpleSpanProcessor,
  StackContextManager,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { afterEach, describe, expect, test } from 'vitest';
import type { Sampler } from '../../../server/base/settings/values.ts';
import type { EndedSpan } from '../../../server/base/telemetry/otlp.ts';
import { Spans } from '../../../server/base/telemetry/spans.ts';
import { environmentOf } from '../../../server/cli/consume/exec.ts';
import { Agent } from '../../../server/deliver/client/index.ts';
import { uuidBytes } from '../../../server/store/ids.ts';
import { addAgent, startAgentApp, subscribed } from '../../helpers/agents.ts';
import type { Overrides, TestApp, TestWebhook } from '../../helpers/app.ts';
import { startCollector } from '../../helpers/collector.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { until } from '../../helpers/wait.ts';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const SENDER = 'b7ad6b7169203331';
const parentOf = (flags: string) => `00-${TRACE_ID}-${SENDER}-${flags}`;

afterEach(() => {
  trace.disable();
  context.disable();
  propagation.disable();
});

async function tracing(overrides: Overrides = {}) {
  const collector = await startCollector();
  const app = await startAgentApp({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%20b,tenant=7',
    OTEL_SERVICE_NAME: 'hooks',
    ...overrides,
  });
  /** Ends the app, which sends what waits. */
  const ended = async () => {
    await app.stop();
    expect(collector.faults).toEqual([]);
    return collector.spans;
  };
  return { app, collector, ended };
}

async function post(webhook: TestWebhook, traceparent?: string, secret = webhook.secret) {
  const { headers, ...request } = signedRequest({ secret });
  const given = { ...(headers as Record<string, string>), ...(traceparent === undefined ? {} : { traceparent }) };
  const answer = await fetch(webhook.url, { ...request, headers: given });
  const { id } = (await answer.json()) as { id: string };
  return { status: answer.status, id, requestId: answer.headers.get('x-request-id')! };
}

const lineOf = ({ logLines }: TestApp, requestId: string) =>
  until(() =>
    logLines
      .map((line) => JSON.parse(line))
      .find(({ event, request_id }) => event === 'request' && request_id === requestId),
  );

test('an event is one trace from its sender to the work of an agent, and its commit is linked', async () => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
  context.setGlobalContextManager(new StackContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());

  const { app, collector, ended } = await tracing();
  const webhook = await app.addWebhook();
  const { credential } = await addAgent(app, [webhook]);
  const { id, requestId } = await post(webhook, parentOf('01'));
  expect(await lineOf(app, requestId)).toMatchObject({ trace_id: TRACE_ID, traceparent: parentOf('01') });
  const agent = new Agent({ url: app.url, credential });
  let traceparent: string | undefined;
  await agent.run(
    (delivery) => {
      traceparent = delivery.traceparent;
      trace.getTracer('test').startSpan('inner').end();
    },
    { max: 1 },
  );
  const spans = await ended();

  const one = (name: string) => {
    const found = spans.filter((span) => span.name === name);
    expect(found).toHaveLength(1);
    return found[0]!;
  };
  const [receive, commit, deliver] = [one('receive'), one('commit'), one('deliver')];
  expect(receive).toMatchObject({ traceId: TRACE_ID, parentSpanId: SENDER, kind: 2 });
  expect(receive.has).toEqual({
    'http.request.method': 'POST',
    'http.route': '/in/{webhook_id}',
    'http.response.status_code': 202,
    'weir.webhook.id': webhook.id,
    'weir.event.id': id,
  });
  expect(BigInt(receive.endTimeUnixNano) - BigInt(receive.startTimeUnixNano)).toBeGreaterThan(0n);
  expect([commit.traceId === TRACE_ID, commit.parentSpanId]).toEqual([false, undefined]);
  expect(commit.links).toMatchObject([{ traceId: TRACE_ID, spanId: receive.spanId }]);
  expect(receive.links).toMatchObject([{ traceId: commit.traceId, spanId: commit.spanId }]);
  expect(deliver).toMatchObject({ traceId: TRACE_ID, parentSpanId: receive.spanId, kind: 4 });
  expect(deliver.has).toMatchObject({ 'weir.event.id': id, 'weir.delivery.attempt': 1 });
  expect(traceparent).toBe(`00-${TRACE_ID}-${deliver.spanId}-01`);

  const finished = exporter.getFinishedSpans().map((span) => ({
    name: span.name,
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    parent: span.parentSpanContext?.spanId,
  }));
  const handle = finished.find(({ name }) => name === 'handle')!;
  expect(handle).toMatchObject({ traceId: TRACE_ID, parent: deliver.spanId });
  expect(finished.find(({ name }) => name === 'inner')).toMatchObject({ traceId: TRACE_ID, parent: handle.spanId });

  expect(collector.resource).toMatchObject({ 'service.name': 'hooks' });
  expect(collector.headers).toMatchObject({ 'api-key': 'a b', tenant: '7' });
  expect(collector.text).not.toMatch(/sha256|x-hub|signature/i);
});

test("without a sender's trace the id of the event is that of its trace, in the log, the delivery and a command of an agent", async () => {
  const { app, ended } = await tracing({ OTEL_TRACES_SAMPLER: 'traceidratio' });
  const { webhook, agent } = await subscribed(app);
  const { id, requestId } = await post(webhook);
  const traceId = id.replaceAll('-', '');
  expect(await lineOf(app, requestId)).toMatchObject({ trace_id: traceId });
  const delivery = (await agent.claimOne()) as Awaited<ReturnType<typeof agent.claimOne>> & { traceparent: string };
  expect(delivery.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  expect(environmentOf(delivery).TRACEPARENT).toBe(delivery.traceparent);
  const receive = (await ended()).find(({ name }) => name === 'receive')!;
  expect([receive.traceId, receive.parentSpanId]).toEqual([traceId, undefined]);
});

test('an unverified sender is not believed, and the id that protects its webhook is in no span', async () => {
  const { app, collector, ended } = await tracing({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' });
  const [verified, open] = [await app.addWebhook(), await app.addWebhook({ secret: null })];
  const agent = await addAgent(app, [verified, open]);
  await post(open, parentOf('01'));
  await post(verified, parentOf('00'));
  const traced = await post(verified, parentOf('01'));
  const deliveries = await agent.claim();
  const flags = deliveries.map((one) => (one as unknown as { traceparent: string }).traceparent.slice(-2));
  expect(flags).toEqual(['00', '00', '01']);
  const spans = await ended();
  expect(new Set(spans.map(({ has }) => has['weir.event.id']).filter(Boolean))).toEqual(new Set([traced.id]));
  expect(collector.text).not.toContain(open.id);
});

test('a refused request is an error without a commit, and an unknown URL is not traced', async () => {
  const { app, ended } = await tracing();
  const webhook = await app.addWebhook();
  expect((await post(webhook, undefined, 'another secret')).status).toBe(403);
  const unknown = `${app.url}/in/00000000-0000-4000-8000-000000000000`;
  expect((await fetch(unknown, { method: 'POST', body: '{}' })).status).toBe(404);
  const spans = await ended();
  expect(spans.map(({ name, status, has }) => [name, status?.code, has['error.type']])).toEqual([
    ['receive', 2, 'signature_mismatch'],
  ]);
});

test('a collector that refuses costs a line in the log and counted spans, not an event', async () => {
  const { app, collector } = await tracing();
  collector.status = 400;
  const webhook = await app.addWebhook();
  expect((await post(webhook)).status).toBe(202);
  await until(async () => (await app.metric('weir_spans_total')) === 2);
  await until(() => app.logLines.some((line) => JSON.parse(line).event === 'spans_failed'));
  await app.stop();
});

describe('the limits and samplers', () => {
  const event = { id: '01a1ffb6-1f30-7b8e-9d54-2c6a91e07b33', webhook_id: 'w', webhook_name: 'shop' };
  const delivery = { id: 'd', attempt: 1, event: { ...event, headers: {} } };

  function unit(sampler: Sampler, { ratio = 1, secondMax = 1_000 } = {}) {
    const recorded: EndedSpan[] = [];
    const dropped: string[] = [];
    const sink = { waiting: 0, record: (span: EndedSpan) => void recorded.push(span), close: async () => {} };
    const spans = new Spans(sink, { sampler, ratio, secondMax, onDropped: (reason) => dropped.push(reason) });
    spans.isVerified = () => true;
    return { spans, sink, recorded, dropped };
  }

  test('requests with one X-Request-Id are spans of their own', () => {
    const { spans, recorded } = unit('always_on');
    const requests = [event.id, event.id.replace('01a1', '01a2')].map((eventId) => {
      const exchange = {
        requestId: 'the same',
        method: 'POST',
        route: '/in/:webhook_id',
        parameters: ['w'],
        status: 202,
      };
      const rest = { aborted: false, problemCode: null, eventId, traceId: null, header: () => undefined };
      return { exchange: { ...exchange, ...rest, clock: { startedMs: 0 } }, row: { id: uuidBytes(eventId) } };
    });
    for (const { exchange, row } of requests) spans.begin(exchange, { id: 'w', isVerified: true }, row.id);
    spans.committed([requests[0]!.row], 1, 0);
    for (const { exchange } of requests) spans.finished(exchange);
    const traceIds = requests.map(({ exchange }) => exchange.eventId.replaceAll('-', ''));
    expect(recorded.map(({ name, links }) => [name, links.length])).toEqual([
      ['commit', 1],
      ['receive', 1],
      ['receive', 0],
    ]);
    expect(recorded.slice(1).map(({ traceId }) => traceId)).toEqual(traceIds);
    expect(recorded[0]!.links[0]!.traceId).toBe(traceIds[0]);
  });

  test('one span more than a second may have is dropped and counted', () => {
    const { spans, recorded, dropped } = unit('always_on', { secondMax: 1 });
    spans.delivered(delivery, 'a', 0);
    // Another second may have begun.
    while (dropped.length === 0) spans.delivered(delivery, 'a', 0);
    expect([dropped, recorded.length >= 1]).toEqual([['limited'], true]);
  });

  test.each([
    [4_095, []],
    [4_096, ['queue_full']],
  ])('with %i spans waiting a span is dropped: %j', (waiting, expected) => {
    const { spans, sink, dropped } = unit('always_on');
    sink.waiting = waiting;
    spans.delivered(delivery, 'a', 0);
    expect(dropped).toEqual(expected);
  });

  test.each<[Sampler, number, string | null, boolean]>([
    ['always_on', 1, null, true],
    ['always_on', 1, '00', true],
    ['always_off', 1, '01', false],
    ['traceidratio', 0, '01', false],
    ['traceidratio', 1, '00', true],
    ['parentbased_always_on', 1, null, true],
    ['parentbased_always_on', 1, '00', false],
    ['parentbased_always_off', 1, null, false],
    ['parentbased_always_off', 1, '01', true],
    ['parentbased_traceidratio', 0, null, false],
    ['parentbased_traceidratio', 0, '03', true],
  ])('%s with the ratio %f and the flags %s of a sender samples: %s', (sampler, ratio, flags, expected) => {
    const { spans } = unit(sampler, { ratio });
    const headers: Record<string, string> = flags === null ? {} : { traceparent: parentOf(flags) };
    const traceparent = spans.delivered({ ...delivery, event: { ...event, headers } }, 'a', 0);
    expect(traceparent.endsWith('-01')).toBe(expected);
  });

  test('the receipt and the delivery of an event decide the same, for the share that is set', () => {
    const { spans, recorded } = unit('parentbased_traceidratio', { ratio: 0.25 });
    let sampled = 0;
    for (let i = 0; i < 400; i++) {
      const random = Math.floor(((i + 0.5) / 400) * 2 ** 24)
        .toString(16)
        .padStart(6, '0');
      const id = `01a1ffb6-1f30-7000-80${random.slice(0, 2)}-${random.slice(2)}00000000`;
      const exchange = { requestId: id, traceId: null, header: () => undefined };
      spans.begin(exchange as never, { id: 'w', isVerified: true }, uuidBytes(id));
      const isTraced = exchange.traceId !== null;
      const flag = spans.delivered({ ...delivery, event: { ...event, id, headers: {} } }, 'a', 0).slice(-1);
      expect(flag).toBe(isTraced ? '1' : '0');
      sampled += Number(isTraced);
    }
    expect([sampled, recorded.length]).toEqual([100, 100]);
  });
});
