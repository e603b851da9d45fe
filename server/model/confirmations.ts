/**
 * Operations that stop traffic or cannot be undone. A page carries one out only after a person has confirmed it (pages/page.ts), a command asks on a
 * terminal (cli/manage/call.ts), and the tools of AI agents say that they are destructive.
 */

interface Confirmation {
  /** `click`: after the consequence was read; `name`: by typing the name of the target; null: its button says all, so that a person is not asked. */
  by: 'click' | 'name' | null;
  /** A sentence about the target. */
  consequence: string;
  /** Whether this input needs the confirmation; absent: every input. */
  when?(input: Readonly<Record<string, unknown>>): boolean;
}

export const confirmations = {
  deleteWebhook: { by: 'name', consequence: 'Requests to its URL then get a 404 response.' },
  updateWebhook: {
    by: 'click',
    consequence: 'Requests to it then get a 410 response and are not stored.',
    when: ({ enabled }) => enabled === false,
  },
  rotateSecret: { by: 'click', consequence: 'Requests signed with the old secret are refused once it ends.' },
  endPreviousSecret: { by: 'click', consequence: 'Requests signed with the old secret are refused from now on.' },
  removeCell: { by: 'click', consequence: 'Weir forgets the cell and its connection string.' },
  drainCell: { by: 'click', consequence: 'All webhooks of the cell move to other cells.' },
  revokeAgent: { by: 'name', consequence: 'Its credential and sessions are refused from now on, permanently.' },
  rotateAgent: { by: 'click', consequence: 'It stops when the old credential ends, until it has the new one.' },
  settleUndelivered: {
    by: 'click',
    consequence: 'Its unfinished deliveries end without having been fetched.',
    when: ({ to_agent_id }) => to_agent_id === null,
  },
  dismissDeliveries: {
    by: 'click',
    consequence: 'No agent gets dismissed deliveries, unless they are replayed. It can be undone for 24 hours.',
  },
  // A replay of the delivery undoes it.
  dismissDelivery: { by: null, consequence: 'No agent gets the delivery, unless it is replayed.' },
  revokeToken: {
    by: 'click',
    consequence: 'Programs with it, and with tokens created by it, are refused from now on.',
  },
  deleteUser: { by: 'name', consequence: 'The sessions and tokens of the user end. It cannot be undone.' },
  updateUser: {
    by: 'click',
    consequence: 'The user is signed out everywhere, and programs with tokens of the user are refused.',
    when: ({ disabled }) => disabled === true,
  },
  revokeInvitation: { by: 'click', consequence: 'The invitation link ends.' },
  endSessions: { by: 'click', consequence: 'All browsers of the user are signed out.' },
  replayEvent: { by: null, consequence: 'Agents get the event again, and do its work once more.' },
  nack: { by: null, consequence: 'After too many attempts the deliveries are dead letters.' },
} satisfies Record<string, Confirmation>;

export type ConfirmedOperation = keyof typeof confirmations;

/** How a person confirms the operation with this input; null: no confirmation is needed. */
export function confirmationOf(operation: string, input: unknown): (Confirmation & { by: 'click' | 'name' }) | null {
  if (!Object.hasOwn(confirmations, operation)) return null;
  const { by, consequence, when }: Confirmation = confirmations[operation as ConfirmedOperation];
  const isAsked = by !== null && (when?.((input ?? {}) as Readonly<Record<string, unknown>>) ?? true);
  return isAsked ? { by, consequence } : null;
}
