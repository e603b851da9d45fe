/** Errors of the client. Each has a code for programs, a message for people, and names the fix. */

/**
 * - `credential_invalid`: the text or the file is not an agent credential
 * - `credential_unreadable`: the credential file cannot be read, or the function that returns the credential failed `attemptsMax` times
 * - `credential_refused`: Weir answered 401: the credential was rotated or revoked, or belongs to another Weir
 * - `not_weir`: the URL answers, but not as Weir's API
 * - `unreachable`: no answer, or only server errors, in `attemptsMax` attempts
 * - `request_refused`: Weir refused the request; `problemCode` is the code of its answer
 * - `lease_lost`, `drain_ended`: reasons of `delivery.signal`
 * - `closed`: the agent was closed before the answer arrived, so the outcome is unknown
 */
export type WeirErrorCode =
  | 'credential_invalid'
  | 'credential_unreadable'
  | 'credential_refused'
  | 'not_weir'
  | 'unreachable'
  | 'request_refused'
  | 'lease_lost'
  | 'drain_ended'
  | 'closed';

interface WeirErrorDetails {
  /** HTTP status of the answer. */
  status?: number;
  /** `code` of the problem document (RFC 9457) that Weir answered; /docs/reference#errors of the server lists these codes. */
  problemCode?: string;
}

export class WeirError extends Error {
  override readonly name = 'WeirError';
  readonly code: WeirErrorCode;
  /** What to do about it, as one sentence. */
  readonly fix: string;
  readonly status: number | undefined;
  readonly problemCode: string | undefined;

  /** @param message never contains any part of a credential */
  constructor(code: WeirErrorCode, message: string, fix: string, { status, problemCode }: WeirErrorDetails = {}) {
    super(message);
    this.code = code;
    this.fix = fix;
    this.status = status;
    this.problemCode = problemCode;
  }
}

/** The longest delay before the next attempt that the API accepts, in seconds. */
export const DELAY_SECONDS_MAX = 86_400;

/**
 * Thrown by a handler: the delivery is attempted again, after `delaySeconds`, which is limited to 0 to 86,400. Without it the server doubles
 * the wait with each attempt, as for every other error; also when it is not a number, which the reason then says.
 */
export class Retry extends Error {
  override readonly name = 'Retry';
  readonly delaySeconds: number | undefined;

  constructor(reason: string, { delaySeconds }: { delaySeconds?: number } = {}) {
    const isUsable = delaySeconds === undefined || delaySeconds >= 0 || delaySeconds < 0;
    super(isUsable ? reason : `${reason} (delaySeconds is ${delaySeconds})`);
    this.delaySeconds =
      isUsable && delaySeconds !== undefined ? Math.min(Math.max(delaySeconds, 0), DELAY_SECONDS_MAX) : undefined;
  }
}

/** Thrown by handlers of this package: the work was not begun, so the delivery is released and the attempt does not count. */
export class NotBegun extends Error {}

/** The API accepts 500. */
const REASON_CHARACTERS_MAX = 400;

/** The reason of a failed delivery, from anything that a handler may throw. Truncated between characters, never inside one. */
export function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  if (text.length <= REASON_CHARACTERS_MAX) return text;
  const cut = text.slice(0, REASON_CHARACTERS_MAX - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
