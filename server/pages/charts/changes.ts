/** Changes by users, in words and as marks on a chart of requests, for those who may read the audit log. */

import type { Call } from '../call.ts';
import { partOf } from '../page.ts';
import { utc } from '../show.ts';

const SHOWN_MAX = '50';
/** Changes of what traffic depends on. A test request, or the look at a rejection, changes nothing. */
const KINDS = ['webhook.', 'agent.'];
const NO_CHANGE = new Set(['webhook.test']);

export interface Change {
  at: string;
  text: string;
  href: string;
}

/** Reads the newest changes since a time; none for users who may not read them. @param targetId null: of all webhooks and agents */
export async function readChanges(call: Call, fromMs: number, targetId: string | null): Promise<Change[]> {
  const from = new Date(fromMs).toISOString();
  const lists = await Promise.all(
    (targetId === null ? KINDS : ['']).map((action) =>
      partOf(call('listAudit', { query: { from, action, target_id: targetId ?? undefined, limit: SHOWN_MAX } })),
    ),
  );
  return lists
    .flatMap((list) => list?.items ?? [])
    .flatMap(({ number, at, action, actor, target }) =>
      at === null || action === null || NO_CHANGE.has(action)
        ? []
        : [
            {
              at,
              text: `${actor?.name ?? 'Weir'} ${verbOf(action)} ${target?.name ?? ''}`.trim(),
              href: `/audit/${number}`,
            },
          ],
    );
}

/** Where they are in a chart: shares of its width, from 0 to 1. @param times Unix milliseconds of the first and the last point */
export function marksOf(changes: readonly Change[], [first, last]: [number, number]) {
  return changes.flatMap(({ at, text }) => {
    const share = (Date.parse(at) - first) / (last - first);
    return share < 0 ? [] : [{ at: Math.min(1, share), text: `${text}, ${utc(at)}` }];
  });
}

/** What an actor did, before the kind and the name of the target; other verbs are their past form. */
const verbs: Readonly<Record<string, string>> = {
  accept_invitation: 'accepted the invitation of',
  began: 'reported',
  cancel: 'cancelled',
  dismiss: 'dismissed',
  end_previous_secret: 'ended the old secret of',
  expire: 'removed the temporary',
  extend: 'extended the lease of',
  fix: 'fixed',
  link: 'linked to the identity provider',
  password: 'changed the password of',
  recheck: 'checked again',
  reset_password: 'reset the password of',
  revoke_invitation: 'revoked the invitation of',
  role_ended: 'ended the role of',
  rotate: 'rotated the credential of',
  rotate_secret: 'rotated the secret of',
  sign_in: 'signed in',
  sign_in_failed: 'failed to sign in as',
  sign_out: 'signed out',
  sign_out_everywhere: 'signed out everywhere',
  test: 'tested',
  undo: 'undid an action on',
  update: 'changed',
  wake: 'ended the snooze of',
};

/** `rotated the secret of`, from `webhook.rotate_secret`. */
export function verbOf(action: string): string {
  const verb = action.slice(action.indexOf('.') + 1);
  return verbs[verb] ?? verb.replace(/(e|ed)?$/, 'ed').replaceAll('_', ' ');
}
