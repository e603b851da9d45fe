/** Who makes a change, as the audit log keeps it. */
import { userInfo } from 'node:os';
import type { Database } from '../db/pool.ts';

export interface Actor {
  /** `command`: somebody with a shell on the machine; `system`: Weir itself; `anyone`: not signed in yet. */
  kind: 'user' | 'token' | 'command' | 'system' | 'anyone';
  /** Of the user; null where there is none. */
  id: string | null;
  /** Email of the user, or the system's name of whoever runs the command. */
  name: string;
  token_id: string | null;
  /** Client address; null for commands. */
  address: string | null;
  request_id: string | null;
  /** Called in the transaction of each change; when it rejects, the change is undone. No part of the entry. */
  confirm?: (query: Database['query']) => Promise<void>;
}

/** Whoever runs a command on this machine. */
export function commandActor(): Actor {
  return { kind: 'command', id: null, name: systemName(), token_id: null, address: null, request_id: null };
}

/** Weir itself, e.g. at its start. */
export const systemActor: Actor = {
  kind: 'system',
  id: null,
  name: 'weir',
  token_id: null,
  address: null,
  request_id: null,
};

/** A container's user may have a number and no name. */
function systemName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
