/** The author of a change, as the audit log stores it. */
import { userInfo } from 'node:os';
import type { z } from 'zod';
import type { actorSchema } from '../../model/audit.ts';
import type { Query } from '../connect/pool.ts';

export interface Actor extends z.output<typeof actorSchema> {
  /** `command`: a person with a shell on this machine; `system`: Weir itself; `anyone`: not signed in. */
  kind: 'user' | 'token' | 'agent' | 'command' | 'system' | 'anyone';
  /** Called in the transaction of each change; if it rejects, the change is rolled back. Not part of the entry. */
  confirm?: (query: Query) => Promise<void>;
}

/**
 * The actor for commands run on this machine.
 * @param name of the operating-system user
 */
export function commandActor(name = systemName()): Actor {
  return { kind: 'command', id: null, name, token_id: null, address: null, request_id: null };
}

export const systemActor: Actor = {
  kind: 'system',
  id: null,
  name: 'weir',
  token_id: null,
  address: null,
  request_id: null,
};

/** The operating-system user of this process. In a container it may have a number but no name. */
export function systemName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
