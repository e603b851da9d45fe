/** A user who was recognized in a request, and by what. */

import type { Actor } from '../audit/actor.ts';
import type { Role } from '../db/roles.ts';
import type { Exchange } from '../http/exchange.ts';

export interface Person {
  /** Of the user. */
  id: string;
  email: string;
  name: string;
  /** In force for this request: the user's, or the token's when that is less. */
  role: Role;
  via:
    | {
        kind: 'session';
        sessionId: string;
        secondsLeft: number;
        /** Since the user last signed in, here or at the identity provider. */
        authenticatedSecondsAgo: number;
      }
    | { kind: 'token'; tokenId: string }
    | { kind: 'jwt' };
}

/** False: an API token or a JWT, which changes other users by its role and of its own user only what it created. */
export function hasSession({ via }: Person): boolean {
  return via.kind === 'session';
}

/** The person as the audit log names whoever makes a change. */
export function actorOf(person: Person, exchange: Exchange): Actor {
  return {
    kind: person.via.kind === 'token' ? 'token' : 'user',
    id: person.id,
    name: person.email,
    token_id: person.via.kind === 'token' ? person.via.tokenId : null,
    address: exchange.client.address,
    request_id: exchange.requestId,
  };
}

/** Somebody who is not signed in, as the audit log names whoever makes a change. */
export function visitor(exchange: Exchange): Actor {
  return {
    kind: 'anyone',
    id: null,
    name: '',
    token_id: null,
    address: exchange.client.address,
    request_id: exchange.requestId,
  };
}
