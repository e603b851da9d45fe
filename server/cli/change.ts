/** Runs a change for a command and reports a failure in one sentence. */
import type { Change } from '../api/change.ts';
import { InputError } from '../api/input.ts';
import { CommandError } from './io.ts';

/** Commands that list the ids of a field. */
const lists: Readonly<Record<string, string>> = { agent_ids: 'weir agent list', webhook_ids: 'weir webhook list' };

/** Returns the value of a successful change. Throws CommandError. @param missing message when the object does not exist */
export function made<T>(change: Change<T>, missing: string): T {
  switch (change.kind) {
    case 'done':
      return change.value;
    case 'invalid': {
      const list = lists[String(change.path[0])];
      throw new CommandError(list === undefined ? change.detail : `${change.detail} See: ${list}`, 2);
    }
    case 'name_taken':
      throw new CommandError('Another active agent has this name. See: weir agent list');
    default:
      throw new CommandError(missing);
  }
}

/** Runs work whose input the API's schemas check. Invalid input counts as wrong usage. */
export async function withInput<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof InputError) throw new CommandError(error.message, 2);
    throw error;
  }
}
