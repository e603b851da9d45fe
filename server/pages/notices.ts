import { recordOf } from '../http/record.ts';
import { plural } from './show.ts';

/** Messages shown once after a change, by the name in the URL: `?notice=…`. */
const sentences: Readonly<Record<string, string | ((count: number) => string)>> = {
  'signed-out': 'You are signed out.',
  replayed: 'It is on its way again.',
  'dead-replayed': (count) => `${plural(count, 'dead letter is', 'dead letters are')} pending again.`,
  'dead-replayed-in-part': (count) =>
    `The oldest ${plural(count, 'dead letter is', 'dead letters are')} pending again. Replay once more for the rest.`,
  enabled: 'It takes requests again.',
  disabled: 'It is disabled: requests are answered 410.',
  revoked: 'Revoked.',
  accepted: 'The refused request is stored as this event.',
  'verifies-now': 'It verifies now.',
  'still-refused': 'It is still refused; the reason is below.',
  saved: 'Saved.',
  deleted: 'Deleted.',
  'set-up': 'Weir is set up, and you are its administrator.',
  'signed-out-everywhere': 'You are signed out everywhere.',
  'session-ended': 'That browser is signed out.',
  'password-changed': 'Your password is changed; every other browser is signed out.',
  'password-changed-tokens-revoked': (count) =>
    `Your password is changed; every other browser is signed out, and ${plural(count, 'API token is', 'API tokens are')} revoked.`,
  'password-reset': 'The password is set, and their browsers are signed out.',
  'password-reset-tokens-revoked': (count) =>
    `The password is set, their browsers are signed out, and ${plural(count, 'API token is', 'API tokens are')} revoked.`,
  'user-made': 'The user is made.',
  'user-disabled': 'The user is disabled.',
  'user-enabled': 'The user is enabled.',
  'token-revoked': 'The token is revoked: it is refused everywhere from now on.',
};

const notices = recordOf(Object.entries(sentences));

/** The message for the notice in the URL; null for an unknown name. The URL cannot inject text. */
export function noticeOf(query: URLSearchParams): string | null {
  const notice = notices[query.get('notice') ?? ''];
  if (typeof notice !== 'function') return notice ?? null;
  const count = query.get('count') ?? '';
  return /^\d{1,9}$/.test(count) ? notice(Number(count)) : null;
}
