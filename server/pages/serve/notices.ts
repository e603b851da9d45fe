/**
 * Messages shown after a change. The redirect after the change names the message in its URL, with a proof: a keyed hash of the message,
 * the path, the session and the time. So a link of another site cannot claim a change, and a bookmark does not repeat the message. A
 * cookie would show the message in any tab that loads first.
 */
import { createHmac } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { recordOf } from '../../base/http/record.ts';
import { sameText } from '../../manage/auth/csrf.ts';
import { isId } from '../names.ts';
import { plural } from '../show.ts';

type Sentence = string | ((count: number) => string);

/** Two messages of an action that changes a limited number of items, oldest first: `name` if all are changed, `name-in-part` if not. */
const inParts = (name: string, [one, several]: [string, string], done: string, verb: string) => ({
  [name]: (count: number) => `${plural(count, one, several)} ${done}.`,
  [`${name}-in-part`]: (count: number) =>
    `The oldest ${plural(count, one, several)} ${done}. ${verb} again for the rest.`,
});
const deliveries: [string, string] = ['delivery is', 'deliveries are'];
const deadLetters: [string, string] = ['dead letter is', 'dead letters are'];

/** Messages by the name in the URL: `?notice=…`. */
const sentences: Readonly<Record<string, Sentence>> = {
  ...inParts('undelivered-dismissed', deliveries, 'dismissed', 'Dismiss'),
  ...inParts('undelivered-moved', deliveries, 'moved', 'Move'),
  ...inParts('dead-replayed', deadLetters, 'pending again', 'Replay'),
  ...inParts('dead-dismissed', deadLetters, 'dismissed', 'Dismiss'),
  ...inParts('many-replayed', deliveries, 'pending again', 'Replay'),
  ...inParts('accepted-many', ['rejected request is an event', 'rejected requests are events'], 'now', 'Accept'),
  undone: (count) => `${plural(count, ...deliveries)} restored.`,
  'undone-in-part': (count) => `${plural(count, ...deliveries)} restored. The others were claimed or changed since.`,
  'signed-out': 'You are signed out.',
  replayed: 'Replayed: pending again.',
  'none-chosen': 'No delivery was chosen. Choose rows of the list first.',
  'job-created': 'Created. This page shows its progress.',
  'job-cancelled': 'Cancelled. What the job has created stays.',
  'sent-again': 'Sent. This is the new event.',
  dismissed: 'Dismissed. It stays visible and can be replayed.',
  'webhook-moved': 'New events go to the other cell.',
  'secret-active': 'The new secret is active.',
  'previous-ended': 'The old secret has ended.',
  enabled: 'The webhook is enabled.',
  disabled: 'The webhook is disabled. Requests get a 410 response.',
  paused: 'Paused. Its deliveries wait until you resume it.',
  resumed: 'Resumed.',
  revoked: 'Revoked.',
  accepted: 'The rejected request is stored as this event.',
  'rejection-fixed': (count) =>
    count === 0
      ? 'The webhook is changed, but no stored request verifies yet.'
      : `The webhook is changed: ${plural(count, 'rejected request verifies', 'rejected requests verify')} now.`,
  'verifies-now': 'The request verifies now.',
  'still-refused': 'The request is still rejected.',
  saved: 'Saved.',
  deleted: 'Deleted.',
  'set-up': 'Weir is set up. You are the administrator.',
  'signed-out-everywhere': 'You are signed out everywhere.',
  'session-ended': 'That browser is signed out.',
  'password-changed': 'Your password is changed; every other browser is signed out.',
  'password-changed-tokens-revoked': (count) =>
    `Your password is changed; every other browser is signed out, and ${plural(count, 'API token is', 'API tokens are')} revoked.`,
  'password-reset': 'The password is set. All browsers of the user are signed out.',
  'password-reset-tokens-revoked': (count) =>
    `The password is set. All browsers of the user are signed out, and ${plural(count, 'API token is', 'API tokens are')} revoked.`,
  'user-created': 'User created.',
  'invitation-accepted': 'Your password is set.',
  'invitation-revoked': 'The invitation link is revoked.',
  'user-disabled': 'The user is disabled.',
  'user-enabled': 'The user is enabled.',
  'token-revoked': 'The token is revoked.',
};

const notices = recordOf(Object.entries(sentences));

interface Notice {
  text: string;
  /** The form that undoes the change: its path below that of the page, and its fields. */
  undo: { path: string; fields: Record<string, string> } | null;
}

function undoOf(name: string, query: URLSearchParams): Notice['undo'] {
  if (name === 'disabled') return { path: '/switch', fields: { enabled: 'true' } };
  if (name === 'paused') return { path: '/pause', fields: { paused: 'false' } };
  const action = query.get('action') ?? '';
  if (!/^(dead-replayed|dead-dismissed|many-replayed)(-in-part)?$/.test(name) || !isId(action)) return null;
  return { path: '/undo', fields: { action_id: action, state: query.get('state') ?? '' } };
}

/** How long after the change its message is shown, also when the page is reloaded. */
const NOTICE_SECONDS = 60;
/** Parameters on which a message and its form to undo depend. The proof is for them and the path. */
const PROVEN = ['notice', 'count', 'action', 'state'];

export class Notices {
  readonly #key: Buffer;
  readonly #nowMs: () => number;

  /** @param key the same in every process */
  constructor(key: Buffer, nowMs: () => number) {
    this.#key = key;
    this.#nowMs = nowMs;
  }

  /** The URL that shows the notice once the change is made. @param session null: the client is not signed in, or not yet */
  addressWith(name: string, to: string, session: string | null): string {
    const [path, given] = to.split('?', 2) as [string, string | undefined];
    const query = new URLSearchParams(given);
    query.set('notice', name);
    const expires = Math.floor(this.#nowMs() / 1000) + NOTICE_SECONDS;
    query.set('proof', `${expires}.${this.#hash(path, query, session, expires)}`);
    return `${path}?${query}`;
  }

  /** The message that a page shows; null without one, or without its proof. */
  noticeOf({ path, query: given }: Pick<Exchange, 'path' | 'query'>, session: string | null): Notice | null {
    const query = new URLSearchParams(given);
    const [, seconds, hash] = /^(\d{1,12})\.([\w-]{43})$/.exec(query.get('proof') ?? '') ?? [];
    if (hash === undefined || Number(seconds) * 1000 < this.#nowMs()) return null;
    const isProven = [session, null].some((one) => sameText(hash, this.#hash(path, query, one, Number(seconds))));
    return isProven ? describeNotice(query) : null;
  }

  #hash(path: string, query: URLSearchParams, session: string | null, expires: number): string {
    const proven = [path, session, expires, ...PROVEN.map((name) => query.getAll(name))];
    return createHmac('sha256', this.#key).update(JSON.stringify(proven)).digest('base64url');
  }
}

/** The message for the notice in the URL; null for an unknown name. The URL cannot inject text. */
export function describeNotice(query: URLSearchParams): Notice | null {
  const name = query.get('notice') ?? '';
  const notice = notices[name];
  const count = query.get('count') ?? '';
  if (notice === undefined || (typeof notice === 'function' && !/^\d{1,9}$/.test(count))) return null;
  const text = typeof notice === 'function' ? notice(Number(count)) : notice;
  return { text, undo: undoOf(name, query) };
}
