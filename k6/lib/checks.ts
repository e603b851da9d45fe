/** Expected answers for k6's `check`: sentences and predicates. */

/** The fields of k6's response that the checks use. */
export interface Answer {
  status: number;
  /** Text; null when k6 discards bodies or there was no response. */
  body: unknown;
  headers: Record<string, string>;
}

/** As k6 writes the names of fields. */
const EVENT_ID = 'X-Weir-Event-Id';

export type Checks = Record<string, (answer: Answer) => boolean>;

/** The event was stored: 202 with its id in the field X-Weir-Event-Id, and with its webhook, the time, and the size that was sent. */
export function accepted(bodyBytes: number): Checks {
  return {
    'a signed request is answered 202': ({ status }) => status === 202,
    'the response names the event and its size': ({ body, headers }) => {
      const event = parse(body);
      return (
        typeof event.id === 'string' &&
        event.id === headers[EVENT_ID] &&
        typeof event.webhook_id === 'string' &&
        typeof event.received_at === 'string' &&
        event.bytes === bodyBytes
      );
    },
  };
}

/** The request was rejected with this status and a problem document (RFC 9457) that contains the same status. */
export function refused(what: string, expected: number): Checks {
  return {
    [`${what} is answered ${expected}`]: ({ status }) => status === expected,
    [`${what} gets the reason`]: ({ body }) => {
      const problem = parse(body);
      return problem.status === expected && typeof problem.code === 'string' && typeof problem.request_id === 'string';
    },
  };
}

/** Class of a response under overload. */
export type Outcome = 'accepted' | 'refused' | 'unanswered' | 'broken';

/** Refused: 429 or 503 with Retry-After. Broken: any answer that violates Weir's contract. */
export function outcomeOf({ status, headers }: Answer): Outcome {
  if (status === 0) return 'unanswered';
  if (EVENT_ID in headers) return 'accepted';
  const later = /^[1-9]\d*$/.test(headers['Retry-After'] ?? '');
  return (status === 429 || status === 503) && later ? 'refused' : 'broken';
}

/** The event id in the answer to a request that was stored; null: it was not. Webhooks may answer with a status and body of their own. */
export function eventIdOf({ headers }: Answer): string | null {
  return headers[EVENT_ID] ?? null;
}

function parse(body: unknown): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(String(body));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
