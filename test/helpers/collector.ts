/** A collector of traces: checks each request against the messages of OTLP in their JSON encoding. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { z } from 'zod';

/** @see https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, enums are numbers, 64-bit integers are texts. */
const id = (bytes: number) => z.string().regex(new RegExp(`^(?!0+$)[0-9a-f]{${2 * bytes}}$`));
const nanoseconds = z.string().regex(/^\d{19}$/);
const attributes = z
  .array(
    z.strictObject({
      key: z.string().min(1),
      value: z.union([
        z.strictObject({ stringValue: z.string() }),
        z.strictObject({ intValue: z.union([z.int(), z.string().regex(/^-?\d+$/)]) }),
        z.strictObject({ doubleValue: z.number() }),
        z.strictObject({ boolValue: z.boolean() }),
      ]),
    }),
  )
  .optional();
const dropped = z.int().min(0).optional();
const flags = z.int().min(0).max(0xffff_ffff).optional();

/** opentelemetry/proto/trace/v1/trace.proto */
const span = z.strictObject({
  traceId: id(16),
  spanId: id(8),
  traceState: z.string().optional(),
  parentSpanId: id(8).optional(),
  flags,
  name: z.string().min(1),
  kind: z.int().min(0).max(5),
  startTimeUnixNano: nanoseconds,
  endTimeUnixNano: nanoseconds,
  attributes,
  droppedAttributesCount: dropped,
  events: z.array(z.never()).optional(),
  droppedEventsCount: dropped,
  links: z
    .array(
      z.strictObject({
        traceId: id(16),
        spanId: id(8),
        traceState: z.string().optional(),
        attributes,
        droppedAttributesCount: dropped,
        flags,
      }),
    )
    .optional(),
  droppedLinksCount: dropped,
  status: z.strictObject({ message: z.string().optional(), code: z.int().min(0).max(2).optional() }).optional(),
});
const scope = z.strictObject({
  name: z.string(),
  version: z.string().optional(),
  attributes,
  droppedAttributesCount: dropped,
});
const request = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes, droppedAttributesCount: dropped }),
      scopeSpans: z.array(z.strictObject({ scope, spans: z.array(span), schemaUrl: z.string().optional() })),
      schemaUrl: z.string().optional(),
    }),
  ),
});

export type CollectedSpan = z.output<typeof span> & {
  /** Attributes by name. */
  has: Record<string, string | number | boolean>;
};

interface Collector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  url: string;
  spans: CollectedSpan[];
  /** Attributes of the resource of the last request. */
  resource: Record<string, unknown>;
  /** Header fields of the last request. */
  headers: Record<string, unknown>;
  /** Everything that was sent. */
  text: string;
  /** What did not fit the messages. */
  faults: string[];
  /** What it answers. */
  status: number;
}

/** Runs until the end of the test. */
export async function startCollector(): Promise<Collector> {
  const collector: Collector = { url: '', spans: [], resource: {}, headers: {}, text: '', faults: [], status: 200 };
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const { data, error } = request.safeParse(JSON.parse(text));
    const isTraces = incoming.method === 'POST' && incoming.url === '/v1/traces';
    if (!isTraces || incoming.headers['content-type'] !== 'application/json') collector.faults.push(`${incoming.url}`);
    if (error !== undefined) collector.faults.push(error.message);
    collector.text += text;
    collector.headers = incoming.headers;
    for (const { resource, scopeSpans } of data?.resourceSpans ?? []) {
      collector.resource = valuesOf(resource.attributes);
      for (const { spans } of scopeSpans)
        for (const span of spans) collector.spans.push({ ...span, has: valuesOf(span.attributes) });
    }
    response.writeHead(collector.status, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

function valuesOf(given: z.output<typeof attributes>): CollectedSpan['has'] {
  return Object.fromEntries((given ?? []).map(({ key, value }) => [key, Object.values(value)[0]!]));
}
