/** An authenticated user and the authentication method. */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Actor } from '../../store/audit/record.ts';
import type { ActiveAgent } from '../../store/queries/agents/active-agents.ts';
import type { ActiveUser } from '../../store/queries/users/users.ts';

/** `role` is that of this request: the lower of the user's role and the token's role. */
export interface Person extends ActiveUser {
  via:
    | {
        kind: 'session';
        sessionId: string;
        secondsLeft: number;
        /** Since the user last signed in, in Weir or at the identity provider. */
        authenticatedSecondsAgo: number;
      }
    | { kind: 'token'; tokenId: string }
    | { kind: 'jwt'; expiresAt: Date }
    /** A command on the machine of Weir: an administrator without a user, see local.ts. Requests of the network never have this kind. */
    | { kind: 'local'; actor: Actor };
}

/** True for an API token or a JWT. They may change other users as their role allows, but of their own user only tokens that they created. */
export function isBearer({ via }: Person): boolean {
  return via.kind === 'token' || via.kind === 'jwt';
}

/** What the audit log records of a person. */
type Author = Pick<Person, 'id' | 'email'> & { via: { kind: 'token'; tokenId: string } | { kind: 'session' | 'jwt' } };

/** The person as an actor in the audit log. @param via undefined: the API or a page */
export function personActor(person: Author, exchange: Exchange, via?: Actor['via']): Actor {
  return {
    kind: person.via.kind === 'token' ? 'token' : 'user',
    id: person.id,
    name: person.email,
    token_id: person.via.kind === 'token' ? person.via.tokenId : null,
    address: exchange.client.address,
    request_id: exchange.requestId,
    ...(via === undefined ? {} : { via }),
  };
}

/** An unauthenticated client as an actor in the audit log. */
export function visitorActor(exchange: Exchange): Actor {
  return {
    kind: 'anyone',
    id: null,
    name: '',
    token_id: null,
    address: exchange.client.address,
    request_id: exchange.requestId,
  };
}

/** The reader on a mixed route: a user or, without one, an agent, which sees only its own deliveries and data. */
export type Reader = { kind: 'user'; person: Person } | AgentReader;
export type AgentReader = { kind: 'agent'; agent: ActiveAgent };

/** The agent to whose own data the result is restricted; null: no restriction. */
export function agentIdOf(reader: Reader): string | null {
  return reader.kind === 'agent' ? reader.agent.id : null;
}
