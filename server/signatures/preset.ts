/** The type of a preset: a sender's signature scheme, with what a person needs to set it up. */
import type { SchemeDefinition } from './definition.ts';

/** A request with which a sender checks a webhook's URL. Each is answered as the sender's documentation asks. */
export const handshakes = {
  'hub-challenge': 'GET with hub.mode, hub.verify_token and hub.challenge',
  dropbox: 'GET with challenge',
  'microsoft-graph': 'POST with validationToken in the query',
  slack: 'signed POST of the type url_verification',
  zoom: 'signed POST of the event endpoint.url_validation',
  discord: 'signed POST of a PING',
  cloudevents: 'OPTIONS with WebHook-Request-Origin (CloudEvents)',
} as const;
export type Handshake = keyof typeof handshakes;

export interface Preset {
  /** Lower case, with hyphens. */
  name: string;
  /** The sender, as people know it. */
  title: string;
  /** The sender's page about its signature. */
  docs: string;
  /** How to set up the sender, one sentence or two each. */
  steps: readonly string[];
  definition: SchemeDefinition;
  /** The definition for a webhook with a public key, where the sender may sign with a secret or a private key. */
  publicKeyDefinition?: SchemeDefinition;
  handshake?: Handshake;
  /** Status of a refused signature, where the sender requires another one than 403. */
  refusalStatus?: 401;
  /** What would surprise a person. */
  notes?: string;
  /** Where the type of an event is: `header:x-github-event`, `json:/type`, or two joined by `+`. */
  eventType?: string;
}
