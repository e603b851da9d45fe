/** Presets of senders, loop-returns to paystack. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromLoopReturns: readonly Preset[] = [
  // Source: documentation.
  {
    name: 'loop-returns',
    title: 'Loop Returns',
    docs: 'https://docs.loopreturns.com/reference/hmac-calculation',
    steps: [
      "In the Loop Admin, open Developer Tools and create a webhook with the webhook's URL.",
      'Copy the webhook secret from the same page and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-loop-signature', encoding: 'base64' },
  },
  // Source: third-party lists (two).
  {
    name: 'loops',
    title: 'Loops',
    docs: 'https://loops.so/docs/webhooks',
    steps: [
      "In Loops, open Settings, Webhooks, and enter the webhook's URL as endpoint URL.",
      'Copy the signing secret and paste it into Weir as it is.',
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
    eventType: 'json:/eventName',
  },
  // Source: documentation.
  {
    name: 'lusha',
    title: 'Lusha',
    docs: 'https://docs.lusha.com/webhooks/security',
    steps: [
      "Create a webhook subscription with Lusha's API, with the webhook's URL.",
      'Copy the webhook secret of your account and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-lusha-signature',
      content: '{timestamp}.{body}',
      timestamp: { from: 'header:x-lusha-timestamp', unit: 's' },
    },
  },
  // Source: sample code of the sender (fbsamples/whatsapp-business-jaspers-market).
  {
    name: 'meta',
    title: 'Meta (WhatsApp, Messenger, Instagram)',
    docs: 'https://developers.facebook.com/docs/graph-api/webhooks/getting-started',
    steps: [
      'In the Meta App Dashboard, open App settings, Basic, copy the App secret, and paste it into Weir.',
      'Choose a verify token and enter it in Weir too.',
      "Open Webhooks, enter the webhook's URL as Callback URL and the verify token. Weir answers the verification.",
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hub-signature-256', prefix: 'sha256=' },
    handshake: 'hub-challenge',
    eventType: 'json:/object',
  },
  // Source: SDK (modern-treasury-node).
  {
    name: 'modern-treasury',
    title: 'Modern Treasury',
    docs: 'https://docs.moderntreasury.com/platform/docs/verifying-webhooks',
    steps: [
      "In Modern Treasury, open Developers, Webhooks, and add the webhook's URL.",
      'Copy the webhook key shown there and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-signature' },
    eventType: 'header:x-topic',
  },
  // Source: SDK (mux-node-sdk).
  {
    name: 'mux',
    title: 'Mux',
    docs: 'https://www.mux.com/docs/core/verify-webhook-signatures',
    steps: [
      "In the Mux dashboard, open Settings, Webhooks, and create a webhook with the webhook's URL.",
      'Select Show signing secret, copy it, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'mux-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's', tolerance: 300 },
    },
    eventType: 'json:/type',
  },
  // Source: SDK (notion-sdk-js).
  {
    name: 'notion',
    title: 'Notion',
    docs: 'https://developers.notion.com/reference/webhooks',
    steps: [
      "In the settings of your Notion integration, open Webhooks and create a subscription with the webhook's URL.",
      'Notion sends a verification_token to that URL in one unsigned request; read it there.',
      'Enter the token at Notion to confirm the subscription, and paste the same token into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-notion-signature', prefix: 'sha256=' },
    eventType: 'json:/type',
    notes:
      'The request with the verification_token is not signed: receive it with another tool, or before the scheme is set.',
  },
  // Source: third-party lists (two) and several receivers.
  {
    name: 'nylas',
    title: 'Nylas',
    docs: 'https://developer.nylas.com/docs/v3/notifications/',
    steps: [
      "In the Nylas dashboard, open Notifications and create a webhook with the webhook's URL. Weir answers the challenge.",
      'Copy the webhook secret that Nylas shows afterwards and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-nylas-signature' },
    handshake: 'dropbox',
    eventType: 'json:/type',
  },
  // Source: SDK (onfido-node); the name of the header from third-party knowledge.
  {
    name: 'onfido',
    title: 'Onfido',
    docs: 'https://documentation.onfido.com/api/latest/#webhooks',
    steps: [
      "In the Onfido Dashboard, open Developers, Webhooks, and create a webhook with the webhook's URL.",
      'Copy the webhook token and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-sha2-signature' },
    eventType: 'json:/payload/resource_type+json:/payload/action',
  },
  // Source: SDK (openai-node).
  {
    name: 'openai',
    title: 'OpenAI',
    docs: 'https://platform.openai.com/docs/guides/webhooks',
    steps: [
      "In the OpenAI dashboard, open the settings of your project, Webhooks, and create one with the webhook's URL.",
      'Copy the signing secret (whsec_…), which is shown once, and paste it into Weir as it is.',
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
  // Source: documentation.
  {
    name: 'opnform',
    title: 'OpnForm',
    docs: 'https://docs.opnform.com/api-reference/integrations/webhook-security',
    steps: [
      "In OpnForm, open the form, Integrations, and add a webhook with the webhook's URL.",
      'Enter a signing secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-webhook-signature', prefix: 'sha256=' },
  },
  // Source: SDK (orb-node).
  {
    name: 'orb',
    title: 'Orb',
    docs: 'https://docs.withorb.com/guides/integrations-and-exports/webhooks',
    steps: [
      "In Orb, open Developers, Webhooks, and add an endpoint with the webhook's URL.",
      'Copy the signing secret of the endpoint and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-orb-signature',
      items: ' ',
      pair: '=',
      key: 'v1',
      content: 'v1:{timestamp}:{body}',
      timestamp: { from: 'header:x-orb-timestamp', unit: 's' },
    },
    eventType: 'json:/type',
    notes: 'The time is not checked: Orb writes it without a time zone.',
  },
  // Source: SDK (paddle-node-sdk; its window is 5 seconds).
  {
    name: 'paddle',
    title: 'Paddle Billing',
    docs: 'https://developer.paddle.com/webhooks/signature-verification',
    steps: [
      "In Paddle, open Developer tools, Notifications, and create a destination with the webhook's URL.",
      'Edit the destination, copy its Secret key (pdl_ntfset_…), and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'paddle-signature',
      items: ';',
      pair: '=',
      key: 'h1',
      content: '{timestamp}:{body}',
      timestamp: { from: 'field:ts', unit: 's', tolerance: 60 },
    },
    eventType: 'json:/event_type',
  },
  // Source: documentation (docs repository PagerDuty/developer-docs).
  {
    name: 'pagerduty',
    title: 'PagerDuty',
    docs: 'https://developer.pagerduty.com/docs/webhook-signatures',
    steps: [
      "In PagerDuty, open Integrations, Generic Webhooks (v3), and create one with the webhook's URL.",
      'Copy the webhook signing secret, which is shown once, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-pagerduty-signature', items: ',', pair: '=', key: 'v1' },
    eventType: 'json:/event/event_type',
  },
  // Source: documentation (PaystackOSS/doc-code-snippets).
  {
    name: 'paystack',
    title: 'Paystack',
    docs: 'https://paystack.com/docs/payments/webhooks/',
    steps: [
      "In the Paystack dashboard, open Settings, API Keys & Webhooks, and enter the webhook's URL.",
      'Copy the Secret key from the same page and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha512', header: 'x-paystack-signature' },
    eventType: 'json:/event',
  },
];
