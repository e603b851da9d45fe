/** Presets of senders, cronofy to everee. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromCronofy: readonly Preset[] = [
  // Source: SDK (cronofy-node).
  {
    name: 'cronofy',
    title: 'Cronofy',
    docs: 'https://docs.cronofy.com/developers/push-notifications/authentication/',
    steps: [
      "Create a notification channel with Cronofy's API, with the webhook's URL as callback_url.",
      "Copy your application's client secret from the developer dashboard and paste it into Weir.",
    ],
    definition: { algorithm: 'hmac-sha256', header: 'cronofy-hmac-sha256', items: ',', encoding: 'base64' },
    eventType: 'json:/notification/type',
  },
  // Source: third-party lists (four).
  {
    name: 'customer-io',
    title: 'Customer.io',
    docs: 'https://docs.customer.io/journeys/webhooks/',
    steps: [
      "In Customer.io, open Data & Integrations, Integrations, Reporting Webhooks, and enter the webhook's URL.",
      'Copy the signing key of the reporting webhook and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-cio-signature',
      content: 'v0:{timestamp}:{body}',
      timestamp: { from: 'header:x-cio-timestamp', unit: 's' },
    },
    eventType: 'json:/metric',
  },
  // Source: SDK (discord/discord-interactions-js).
  {
    name: 'discord',
    title: 'Discord',
    docs: 'https://discord.com/developers/docs/interactions/overview',
    steps: [
      'In the Discord Developer Portal, open your application and copy its Public Key into Weir.',
      "Enter the webhook's URL as Interactions Endpoint URL, or as Endpoint under Webhooks. Weir answers the ping.",
    ],
    definition: {
      algorithm: 'ed25519',
      header: 'x-signature-ed25519',
      content: '{timestamp}{body}',
      timestamp: { from: 'header:x-signature-timestamp', unit: 's' },
      secret: 'hex',
    },
    handshake: 'discord',
    refusalStatus: 401,
  },
  // Source: source code (its test of the header).
  {
    name: 'discourse',
    title: 'Discourse',
    docs: 'https://meta.discourse.org/t/configure-webhooks-that-trigger-on-discourse-events-to-integrate-with-external-services/49045',
    steps: [
      "In the admin pages of Discourse, open API, Webhooks, and create a webhook with the webhook's URL as payload URL.",
      'Enter a secret of at least 12 characters, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-discourse-event-signature', prefix: 'sha256=' },
    eventType: 'header:x-discourse-event',
  },
  // Source: documentation.
  {
    name: 'documenso',
    title: 'Documenso',
    docs: 'https://docs.documenso.com/docs/developers/webhooks/verification',
    steps: [
      "In Documenso, open Settings, Webhooks, and create a webhook with the webhook's URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'token', header: 'x-documenso-secret' },
    eventType: 'json:/event',
    notes: 'Documenso sends the secret itself and does not sign the body.',
  },
  // Source: third-party lists (four).
  {
    name: 'docusign',
    title: 'Docusign Connect',
    docs: 'https://developers.docusign.com/platform/webhooks/connect/hmac/',
    steps: [
      "In Docusign Admin, open Integrations, Connect, and add a configuration with the webhook's URL.",
      'Turn on Include HMAC Signature in that configuration.',
      'Open Connect Keys, add a secret key, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-docusign-signature-1', encoding: 'base64' },
    eventType: 'json:/event',
    notes: 'With several Connect keys, Weir checks the signature of the first one.',
  },
  // Source: SDK (dodopayments-typescript).
  {
    name: 'dodo-payments',
    title: 'Dodo Payments',
    docs: 'https://docs.dodopayments.com/developer-resources/webhooks',
    steps: [
      "In the Dodo Payments dashboard, open Developer, Webhooks, and add the webhook's URL.",
      'Copy the signing secret of the webhook and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'webhook-signature',
      items: ' ',
      pair: ',',
      key: 'v1',
      encoding: 'base64',
      content: '{id}.{timestamp}.{body}',
      timestamp: { from: 'header:webhook-timestamp', unit: 's', tolerance: 300 },
      secret: 'base64',
      id: 'header:webhook-id',
    },
    eventType: 'json:/type',
  },
  // Source: third-party lists (one, which cites the documentation).
  {
    name: 'doppler',
    title: 'Doppler',
    docs: 'https://docs.doppler.com/docs/webhooks',
    steps: [
      "In Doppler, open the project, Webhooks, and add a webhook with the webhook's URL.",
      'Enter a signing secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-doppler-signature', prefix: 'sha256=' },
    eventType: 'json:/type',
  },
  // Source: sample code of the sender (dropbox/mdwebhook).
  {
    name: 'dropbox',
    title: 'Dropbox',
    docs: 'https://www.dropbox.com/developers/reference/webhooks',
    steps: [
      'In the Dropbox App Console, open your app, copy its App secret, and paste it into Weir.',
      "Add the webhook's URL under Webhook URIs. Weir answers the verification.",
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-dropbox-signature' },
    handshake: 'dropbox',
    notes: 'A notification names the accounts that changed, and holds no file data.',
  },
  // Source: source code (dubinc/dub).
  {
    name: 'dub',
    title: 'Dub',
    docs: 'https://dub.co/docs/webhooks/verify-webhook-requests',
    steps: [
      "In Dub, open Settings, Webhooks, and create a webhook with the webhook's URL.",
      'Copy the signing secret from the details of the webhook and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'dub-signature' },
    eventType: 'json:/event',
  },
  // Source: third-party lists (two).
  {
    name: 'dwolla',
    title: 'Dwolla',
    docs: 'https://developers.dwolla.com/docs/balance/webhooks/process-validate',
    steps: [
      "Create a webhook subscription with Dwolla's API, with the webhook's URL and a secret of your choice.",
      'Paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-request-signature-sha-256' },
    eventType: 'json:/topic',
  },
  // Source: SDK (easypost-node).
  {
    name: 'easypost',
    title: 'EasyPost',
    docs: 'https://docs.easypost.com/guides/webhooks-guide',
    steps: [
      "In the EasyPost dashboard, open Webhooks & Events, and add the webhook's URL.",
      'Enter a webhook secret of your choice in ASCII characters, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hmac-signature', prefix: 'hmac-sha256-hex=' },
    eventType: 'json:/description',
  },
  // Source: SDK (elevenlabs-js).
  {
    name: 'elevenlabs',
    title: 'ElevenLabs',
    docs: 'https://elevenlabs.io/docs/eleven-agents/workflows/post-call-webhooks',
    steps: [
      "In ElevenLabs, open the settings of webhooks and create one with the webhook's URL and HMAC authentication.",
      'Copy the shared secret, which is shown once, and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'elevenlabs-signature',
      items: ',',
      pair: '=',
      key: 'v0',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's', tolerance: 1800 },
    },
    eventType: 'json:/type',
  },
  // Source: documentation.
  {
    name: 'emailit',
    title: 'Emailit',
    docs: 'https://emailit.com/docs/webhooks/request-signature/',
    steps: [
      "In Emailit, open Webhooks and create one with the webhook's URL.",
      'Copy its signing secret (whsec_…) and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-emailit-signature',
      content: '{timestamp}.{body}',
      timestamp: { from: 'header:x-emailit-timestamp', unit: 's', tolerance: 300 },
    },
  },
  // Source: documentation.
  {
    name: 'everee',
    title: 'Everee',
    docs: 'https://developer.everee.com/docs/authenticating-events',
    steps: [
      "Ask Everee, or use its settings for developers, to send events to the webhook's URL.",
      'Copy the webhook signing key that Everee provides and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-everee-webhook-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'header:x-everee-webhook-timestamp', unit: 's' },
    },
  },
];
