/** Check of the user that serves. */
import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problemOf } from '../../model/check.ts';
import type { OperatorError } from '../../model/fault.ts';
import { findServingUser, type ServingUser, servingUserName } from '../primary/serving-user.ts';

/** Names the user of the serving processes when this user starts Weir. */
export async function checkServingUser(settings: Pick<Settings, 'SERVE_AS_ROOT'>): Promise<Check> {
  const name = 'serving_user';
  let user: ServingUser | null;
  try {
    user = await findServingUser(settings);
  } catch (error) {
    return problemOf(name, error as OperatorError, 'start Weir as another user');
  }
  if (user === null && process.getuid?.() === 0)
    return advice(
      name,
      'SERVE_AS_ROOT is true: a fault in a process that serves senders is a fault of root',
      'remove SERVE_AS_ROOT, and restart Weir',
    );
  return ok(name, `Weir serves as the user ${servingUserName(user)}`);
}
