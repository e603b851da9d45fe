/** W3C Trace Context. @see https://www.w3.org/TR/trace-context/#traceparent-header */
import { randomUUID } from 'node:crypto';

/** Version, trace id, parent id and flags. The version ff and ids of zeros are invalid. */
const wellFormed = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Returns the value of a `traceparent` header; undefined when it is absent or malformed, and must not be logged or passed on. */
export function traceparentOf(header: string | undefined): string | undefined {
  return header !== undefined && wellFormed.test(header) ? header : undefined;
}

export interface SpanContext {
  /** 32 hexadecimal digits. */
  traceId: string;
  /** 16 hexadecimal digits. */
  spanId: string;
}

/** The context of the span `receive`. @param hex id of the event */
export function contextOf(hex: string, parent: string | undefined): SpanContext {
  return { traceId: parent?.slice(3, 35) ?? hex, spanId: hex.slice(16) };
}

/** Returns the span id in a `traceparent`; null without one. */
export function spanIdOf(parent: string | undefined): string | null {
  return parent?.slice(36, 52) ?? null;
}

/** Creates a context with random ids. */
export function newContext(): SpanContext {
  // Cheap: Node generates the random bytes of many UUIDs at once.
  const hex = randomUUID().replaceAll('-', '');
  return { traceId: hex, spanId: hex.slice(16) };
}

/** A number from 0 to 1, exclusive, from random digits of an id. W3C Trace Context, level 2: the last 7 bytes are random. */
export function fractionOf(hex: string): number {
  return Number.parseInt(hex.slice(18, 24), 16) / 2 ** 24;
}
