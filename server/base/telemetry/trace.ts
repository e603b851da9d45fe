/** W3C Trace Context. @see https://www.w3.org/TR/trace-context/#traceparent-header */

/** Version, trace id, parent id and flags. The version ff and ids of zeros are invalid. */
const wellFormed = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Returns the value of a `traceparent` header; undefined when it is absent or malformed, and must not be logged or passed on. */
export function traceparentOf(header: string | undefined): string | undefined {
  return header !== undefined && wellFormed.test(header) ? header : undefined;
}
