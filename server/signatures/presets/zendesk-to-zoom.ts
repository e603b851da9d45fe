/** Presets of senders, zendesk to zoom. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromZendesk: readonly Preset[] = [
  // Source: documentation.
  {
    name: 'zendesk',
    title: 'Zendesk',
    docs: 'https://developer.zendesk.com/documentation/webhooks/verifying/',
    steps: [
      "In the Zendesk Admin Center, open Apps and integrations, Webhooks, and create a webhook with the webhook's URL.",
      'Open the webhook, reveal its signing secret, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-zendesk-webhook-signature',
      encoding: 'base64',
      content: '{timestamp}{body}',
      timestamp: { from: 'header:x-zendesk-webhook-signature-timestamp', unit: 's' },
    },
    eventType: 'json:/type',
  },
  // Source: documentation.
  {
    name: 'zoho-payments',
    title: 'Zoho Payments',
    docs: 'https://www.zoho.com/in/payments/developerdocs/webhooks/verification/',
    steps: [
      "In Zoho Payments, open Settings, Developer Space, Webhooks, and create a webhook with the webhook's URL.",
      'Copy its signing key and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-zoho-webhook-signature',
      items: ',',
      pair: '=',
      key: 'v',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 'ms' },
    },
  },
  // Source: sample code of the sender (zoom/webhook-sample).
  {
    name: 'zoom',
    title: 'Zoom',
    docs: 'https://developers.zoom.us/docs/api/webhooks/',
    steps: [
      'In the Zoom App Marketplace, open your app and its page Access, and copy the Secret Token into Weir.',
      "Add an event subscription with the webhook's URL as Event notification endpoint URL, and select Validate. Weir answers it.",
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-zm-signature',
      prefix: 'v0=',
      content: 'v0:{timestamp}:{body}',
      timestamp: { from: 'header:x-zm-request-timestamp', unit: 's' },
    },
    handshake: 'zoom',
    eventType: 'json:/event',
  },
];
