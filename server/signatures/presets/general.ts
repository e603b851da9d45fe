/** Presets of no sender in particular, and those whose scheme is code. */
import type { Preset } from '../preset.ts';

export const generalPresets: readonly Preset[] = [
  {
    name: 'sha256',
    title: 'HMAC-SHA256 in hex (default)',
    docs: 'https://datatracker.ietf.org/doc/html/rfc2104',
    steps: [
      "Enter the webhook's URL at the sender.",
      'Have the sender send sha256= and the hex HMAC-SHA256 of the body in X-Hub-Signature-256, X-Webhook-Signature or the signature header of the webhook.',
      'Give the sender the secret of the webhook.',
    ],
    definition: { algorithm: 'hmac-sha256', prefix: 'sha256=' },
    handshake: 'cloudevents',
    notes: 'Without a secret, signatures are not checked.',
  },
  {
    name: 'token',
    title: 'API key or token in a header',
    docs: 'https://datatracker.ietf.org/doc/html/rfc9110#section-11.4',
    steps: [
      "Enter the webhook's URL at the sender.",
      'Have the sender send the secret of the webhook as the value of the signature header of the webhook.',
    ],
    definition: { algorithm: 'token' },
    handshake: 'cloudevents',
    notes: 'The request carries the secret itself and nothing is signed: use it over TLS only.',
  },
  {
    name: 'basic',
    title: 'HTTP Basic authentication',
    docs: 'https://datatracker.ietf.org/doc/html/rfc7617',
    steps: [
      "Enter the webhook's URL at the sender, with a user and a password of your choice.",
      'Paste user:password into Weir as the secret.',
    ],
    definition: { algorithm: 'basic', header: 'authorization' },
    handshake: 'cloudevents',
    notes: 'The request carries the password itself and nothing is signed: use it over TLS only.',
  },
  {
    name: 'twilio',
    title: 'Twilio',
    docs: 'https://www.twilio.com/docs/usage/webhooks/webhooks-security',
    steps: [
      "In the Twilio Console, open the phone number or service and enter the webhook's URL exactly as Weir shows it, because Twilio signs it.",
      'Copy the Auth Token from the Account Info of the Console and paste it into Weir.',
    ],
    definition: { algorithm: 'twilio', header: 'x-twilio-signature', encoding: 'base64', content: '{url}{body}' },
  },
  {
    name: 'mailgun',
    title: 'Mailgun',
    docs: 'https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks',
    steps: [
      "In Mailgun, open Sending, Webhooks, and add a webhook with the webhook's URL.",
      'Copy the HTTP webhook signing key from the API security settings and paste it into Weir.',
    ],
    definition: {
      algorithm: 'mailgun',
      timestamp: { from: 'json:/signature/timestamp', unit: 's' },
      id: 'json:/signature/token',
    },
    notes: 'Mailgun signs a time and a token, not the event data.',
    eventType: 'json:/event-data/event',
  },
  {
    name: 'microsoft-graph',
    title: 'Microsoft Graph',
    docs: 'https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks',
    steps: [
      'Choose a long random text and paste it into Weir as the secret.',
      "Create the subscription with the webhook's URL as notificationUrl and the same text as clientState. Weir answers the validation.",
    ],
    definition: { algorithm: 'microsoft-graph' },
    handshake: 'microsoft-graph',
    notes: 'The request carries clientState itself and nothing is signed.',
  },
];
