/** Presets of senders, hubspot to logto. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromHubspot: readonly Preset[] = [
  // Source: SDK (hubspot-api-nodejs).
  {
    name: 'hubspot',
    title: 'HubSpot',
    docs: 'https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation',
    steps: [
      "In your HubSpot developer account, open the app, Webhooks, and enter the webhook's URL as Target URL, exactly as Weir shows it.",
      "Open the app's page Auth, copy the Client secret, and paste it into Weir.",
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-hubspot-signature-v3',
      encoding: 'base64',
      content: '{method}{url}{body}{timestamp}',
      timestamp: { from: 'header:x-hubspot-request-timestamp', unit: 'ms', tolerance: 300 },
    },
    notes: 'One request can hold several events.',
  },
  // Source: documentation (docs repository huggingface/hub-docs).
  {
    name: 'hugging-face',
    title: 'Hugging Face',
    docs: 'https://huggingface.co/docs/hub/webhooks',
    steps: [
      "In Hugging Face, open Settings, Webhooks, and add a webhook with the webhook's URL.",
      'Enter a secret of your choice in ASCII characters, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'token', header: 'x-webhook-secret' },
    eventType: 'json:/event/scope+json:/event/action',
    notes: 'Hugging Face sends the secret itself and does not sign the body.',
  },
  // Source: third-party lists (one).
  {
    name: 'incident-io',
    title: 'incident.io',
    docs: 'https://docs.incident.io/integrations/webhooks',
    steps: [
      "In incident.io, open Settings, Webhooks, and add an endpoint with the webhook's URL.",
      'Copy the signing secret of the endpoint (whsec_…) and paste it into Weir as it is.',
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
    eventType: 'json:/event_type',
  },
  // Source: third-party lists (four).
  {
    name: 'intercom',
    title: 'Intercom',
    docs: 'https://developers.intercom.com/docs/webhooks/setting-up-webhooks',
    steps: [
      "In the Intercom Developer Hub, open your app, Webhooks, and enter the webhook's URL as endpoint URL.",
      'Open Basic information of the app, copy the Client secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha1', header: 'x-hub-signature', prefix: 'sha1=' },
    eventType: 'json:/topic',
  },
  // Source: third-party lists (two).
  {
    name: 'jira',
    title: 'Jira',
    docs: 'https://developer.atlassian.com/cloud/jira/platform/webhooks/',
    steps: [
      "In Jira, open Settings, System, WebHooks, and create a webhook with the webhook's URL.",
      'Enter or generate a secret, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hub-signature', prefix: 'sha256=' },
    eventType: 'json:/webhookEvent',
  },
  // Source: documentation (docs repository knocklabs/docs).
  {
    name: 'knock',
    title: 'Knock',
    docs: 'https://docs.knock.app/developer-tools/outbound-webhooks/overview',
    steps: [
      "In the Knock dashboard, open Developers, Webhooks, and add the webhook's URL.",
      "Copy the secret key on the webhook's page and paste it into Weir.",
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-knock-signature',
      items: ',',
      pair: '=',
      key: 's',
      encoding: 'base64',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 'ms' },
    },
    eventType: 'json:/type',
  },
  // Source: third-party lists (three).
  {
    name: 'launchdarkly',
    title: 'LaunchDarkly',
    docs: 'https://launchdarkly.com/docs/integrations/webhooks',
    steps: [
      "In LaunchDarkly, open Integrations, Webhooks, and add a webhook with the webhook's URL.",
      'Select Sign this webhook, copy the secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-ld-signature' },
    eventType: 'json:/kind',
  },
  // Source: sample code of the sender (lmsqueezy/nextjs-billing).
  {
    name: 'lemon-squeezy',
    title: 'Lemon Squeezy',
    docs: 'https://docs.lemonsqueezy.com/help/webhooks/signing-requests',
    steps: [
      "In Lemon Squeezy, open Settings, Webhooks, and create a webhook with the webhook's URL as callback URL.",
      'Enter a signing secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-signature' },
    eventType: 'header:x-event-name',
  },
  // Source: SDK (line-bot-sdk-nodejs).
  {
    name: 'line',
    title: 'LINE Messaging API',
    docs: 'https://developers.line.biz/en/docs/messaging-api/verify-webhook-signature/',
    steps: [
      "In the LINE Developers Console, open your channel, Messaging API, and enter the webhook's URL as Webhook URL.",
      'Open Basic settings, copy the Channel secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-line-signature', encoding: 'base64' },
    notes: 'One request can hold several events.',
  },
  // Source: SDK (linear/linear).
  {
    name: 'linear',
    title: 'Linear',
    docs: 'https://linear.app/developers/webhooks',
    steps: [
      "In Linear, open Settings, API, and create a webhook with the webhook's URL.",
      'Copy the Signing secret of the new webhook and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'linear-signature',
      timestamp: { from: 'json:/webhookTimestamp', unit: 'ms', tolerance: 60 },
      id: 'header:linear-delivery',
    },
    eventType: 'header:linear-event+json:/action',
  },
  // Source: SDK (lithic-node).
  {
    name: 'lithic',
    title: 'Lithic',
    docs: 'https://docs.lithic.com/docs/events-api',
    steps: [
      "In the Lithic dashboard, open Program, Webhooks, and create an event subscription with the webhook's URL.",
      'Copy the secret of the subscription (whsec_…) and paste it into Weir as it is.',
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
    eventType: 'json:/event_type',
  },
  // Source: SDK (@liveblocks/node).
  {
    name: 'liveblocks',
    title: 'Liveblocks',
    docs: 'https://liveblocks.io/docs/platform/webhooks',
    steps: [
      "In the Liveblocks dashboard, open the project, Webhooks, and create an endpoint with the webhook's URL.",
      'Copy the signing secret of the endpoint (whsec_…) and paste it into Weir as it is.',
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
  // Source: third-party lists (one) and several receivers.
  {
    name: 'lob',
    title: 'Lob',
    docs: 'https://docs.lob.com/#tag/Webhooks',
    steps: [
      "In the Lob dashboard, open Webhooks and create one with the webhook's URL.",
      'Open the webhook, reveal its secret, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'lob-signature',
      content: '{timestamp}.{body}',
      timestamp: { from: 'header:lob-signature-timestamp', unit: 'ms' },
    },
    eventType: 'json:/event_type/id',
  },
  // Source: documentation.
  {
    name: 'logto',
    title: 'Logto',
    docs: 'https://docs.logto.io/developers/webhooks/secure-webhooks',
    steps: [
      "In the Logto Console, open Webhooks and create one with the webhook's URL.",
      'Open its details, copy the signing key, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'logto-signature-sha-256' },
    eventType: 'json:/event',
  },
];
