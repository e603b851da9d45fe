/**
 * The local administrator: a person with a shell on the machine of Weir, as root or as the user that Weir runs as. Every request on the socket
 * in DATA_DIR counts as sent by this person, because the mode of its folder keeps other users out. No request on another listener does.
 */
import type { Exchange } from '../../base/http/exchange.ts';
import { type Actor, commandActor } from '../../store/audit/record.ts';
import type { Person } from './person.ts';

/**
 * Field in which a command states its user of the operating system, percent-encoded, for the audit log. Only the App on the socket reads it.
 * uWebSockets.js does not report the peer's credentials (SO_PEERCRED).
 */
export const COMMAND_USER_FIELD = 'weir-command-user';

/** An id that no user has. */
const NO_USER = '00000000-0000-0000-0000-000000000000';
const nameShape = /^[^\p{Cc}]{1,100}$/u;

/** The local administrator as a requester. @param actor recorded as the author of changes */
export function localAdministrator(actor: Actor): { kind: 'user'; person: Person } {
  const person: Person = {
    id: NO_USER,
    email: '',
    name: actor.name,
    role: 'administrator',
    via: { kind: 'local', actor },
  };
  return { kind: 'user', person };
}

/** Treats every request as sent by the local administrator. Only for the App on the socket. */
export const recognizeLocal = async (exchange: Exchange) =>
  localAdministrator({ ...commandActor(userOf(exchange)), request_id: exchange.requestId });

function userOf(exchange: Exchange): string {
  try {
    const name = decodeURIComponent(exchange.header(COMMAND_USER_FIELD) ?? '');
    return nameShape.test(name) ? name : 'unknown';
  } catch {
    return 'unknown';
  }
}
