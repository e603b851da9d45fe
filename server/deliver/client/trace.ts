/**
 * The work of a handler as a span, in the trace that Weir continues, if the program uses OpenTelemetry: by the API object that
 * `@opentelemetry/api` 1.x registers for all its copies. This package does not depend on it.
 */
import type { ClaimedDelivery } from './delivery.ts';

/** The parts of the API that are used. */
interface Context {
  setValue(key: symbol, value: unknown): Context;
}
interface Span {
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}
interface Api {
  trace?: { getTracer(name: string): { startSpan(name: string, options: object, context: Context): Span } };
  context?: { active(): Context; with<T>(context: Context, work: () => T): T };
  propagation?: { extract(context: Context, carrier: object, getter: object): Context };
}

const API = Symbol.for('opentelemetry.js.api.1');
/** Key of the active span, the same in all copies of the API. */
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const CONSUMER = 4;
const ERROR = 2;
const getter = {
  get: (carrier: Record<string, string>, name: string) => carrier[name],
  keys: (carrier: object) => Object.keys(carrier),
};

/** Runs the work, inside of a span if Weir traces the delivery and the program has set up OpenTelemetry. Its error is that of the work. */
export async function traced(delivery: ClaimedDelivery, work: () => unknown): Promise<void> {
  const { trace, context, propagation } = ((globalThis as Record<symbol, unknown>)[API] ?? {}) as Api;
  const { traceparent } = delivery;
  if (traceparent === undefined || !trace || !context || !propagation) return void (await work());
  const parent = propagation.extract(context.active(), { traceparent }, getter);
  const attributes = {
    'weir.delivery.id': delivery.id,
    'weir.delivery.attempt': delivery.attempt,
    'weir.event.id': delivery.event.id,
    'weir.webhook.name': delivery.event.webhook_name,
  };
  const span = trace.getTracer('weir/client').startSpan('handle', { kind: CONSUMER, attributes }, parent);
  try {
    await context.with(parent.setValue(SPAN, span), work);
  } catch (error) {
    span.setStatus({ code: ERROR, message: error instanceof Error ? error.name : 'Error' });
    throw error;
  } finally {
    span.end();
  }
}
