/** The requests with which senders check a webhook's URL. Each is answered as the sender's documentation asks. */
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
