/** What the answers of Weir mean: expected ones for k6's `check`, classes under overload, and why a run cannot succeed. */

/** The fields of k6's response that are used. */
export interface Answer {
  status: number;
  /** Text; null when there was no response. */
  body: unknown;
  /** Names as Go writes them. */
  headers: Record<string, string>;
  /** Why there was no response. */
  error?: string;
}

const EVENT_ID = 'X-Weir-Event-Id';

export type Checks = Record<string, (answer: Answer) => boolean>;

/** Checks that the event was stored: 202 with its id in the field X-Weir-Event-Id, and with its webhook, the time, and the size sent. */
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

/** Checks that the request was rejected with this status and a problem document (RFC 9457) that contains the same status. */
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

/** Classifies a response. Refused: 429 or 503 with Retry-After. Broken: any answer that violates Weir's contract. */
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

/** The code of the problem; empty when the request was accepted, or was not answered by Weir. */
export function codeOf(answer: Answer): string {
  if (answer.status < 300) return '';
  const { code } = parse(answer.body);
  return typeof code === 'string' ? code : '';
}

/** Answers that the summary counts by name; the others are counted together. Status 0: no answer. */
export const answerSelectors = [
  ...[0, 200, 202, 403, 404].map((status) => `status:${status}`),
  'status:429,code:rate_limited',
  ...['client_busy', 'queue_full', 'memory_full', 'database_unavailable', 'verification_unavailable'].map(
    (code) => `status:503,code:${code}`,
  ),
];

/** What to do about the problems of a request that should have been stored. */
const fixes: Readonly<Record<string, string>> = {
  webhook_unknown: 'The id in WEBHOOK_URL is wrong.',
  webhook_disabled: 'Run: weir webhook update ID --enabled true',
  rate_limited: 'Wait for its window, and run: weir webhook update ID --rate-limit 100000000',
  signature_missing: 'WEIR_SCHEME is not the scheme of the webhook.',
  signature_mismatch: 'WEIR_SECRET or WEIR_SCHEME is not that of the webhook.',
  signature_malformed: 'WEIR_SCHEME is not the scheme of the webhook.',
  signature_timestamp: 'Set the clock of this machine.',
};

/**
 * Why a run cannot succeed, from the answer to one signed request; null: it can.
 * @param perWindow number of requests that the run sends in so many seconds; null: unknown
 */
export function objectionTo(answer: Answer, url: string, perWindow: (seconds: number) => number | null): string | null {
  if (answer.status === 0) return `${url} does not answer: ${answer.error}`;
  if (eventIdOf(answer) === null) {
    const code = codeOf(answer);
    const { detail = 'This is not an answer of Weir.' } = parse(answer.body);
    return [`${url} answers a signed request with ${`${answer.status} ${code}`.trim()}.`, detail, fixes[code]]
      .join(' ')
      .trim();
  }
  const [, max, seconds] = /;q=(\d+);w=(\d+)/.exec(answer.headers['Ratelimit-Policy'] ?? '') ?? [];
  const planned = max === undefined ? null : perWindow(Number(seconds));
  if (planned === null || planned <= Number(max)) return null;
  return `${url} takes ${max} requests in ${seconds} s from one address, and this run sends ${planned}. Run: weir webhook update ID --rate-limit 100000000`;
}

/** Why a run with the agent of WEIR_CREDENTIAL cannot succeed; null: it can. @param url that of the webhook */
export function objectionToAgent(
  { pending, paused, webhooks }: { pending: number; paused: boolean; webhooks: readonly { id: string }[] },
  url: string,
): string | null {
  if (paused) return 'The agent of WEIR_CREDENTIAL is paused. Run: weir agent resume NAME';
  const another = `Use another one: weir agent add --name k6-2 --webhook ${url.replace(/^.*\//, '')}`;
  if (!webhooks.some(({ id }) => url.endsWith(`/in/${id}`)))
    return `The agent of WEIR_CREDENTIAL is not subscribed to the webhook of WEBHOOK_URL. ${another}`;
  if (pending > 0)
    return `The agent of WEIR_CREDENTIAL has ${pending} pending deliveries, which would be counted. ${another}`;
  return null;
}

function parse(body: unknown): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(String(body));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
