/** Presets of senders, ably to brex. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromAbly: readonly Preset[] = [
  // Source: documentation (docs repository ably/docs).
  {
    name: 'ably',
    title: 'Ably',
    docs: 'https://ably.com/docs/platform/integrations/webhooks',
    steps: [
      "In the Ably dashboard, open your app, Integrations, and create a webhook rule with the webhook's URL.",
      'Turn on batching and select an API key under Signing key.',
      'Copy the part of that API key after the colon and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-ably-signature', encoding: 'base64' },
    notes: 'Ably signs batched requests only.',
  },
  // Source: documentation.
  {
    name: 'aftership',
    title: 'AfterShip Tracking',
    docs: 'https://www.aftership.com/docs/tracking/webhook/webhook-signature',
    steps: [
      "In AfterShip Tracking, open Settings, Webhooks, and add the webhook's URL.",
      'Copy the webhook secret shown on the same page and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'aftership-hmac-sha256', encoding: 'base64' },
    eventType: 'json:/event',
  },
  // Source: documentation.
  {
    name: 'agentset',
    title: 'Agentset',
    docs: 'https://docs.agentset.ai/webhooks/verify-webhook-requests',
    steps: [
      "In Agentset, open the webhooks page and add a webhook with the webhook's URL.",
      'Open its tab Update Details, copy the signing secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'agentset-signature' },
  },
  // Source: pyairtable library and third-party lists; the documentation page was found but its signature section was not read.
  {
    name: 'airtable',
    title: 'Airtable',
    docs: 'https://airtable.com/developers/web/api/webhooks-overview',
    steps: [
      "Create a webhook with Airtable's web API, with the webhook's URL as notificationUrl.",
      'Copy macSecretBase64 from the response, which shows it once, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-airtable-content-mac',
      prefix: 'hmac-sha256=',
      secret: 'base64',
    },
    notes: 'A notification holds no record data: fetch the changes with the list of webhook payloads.',
  },
  // Source: documentation (docs repository alchemyplatform/docs).
  {
    name: 'alchemy',
    title: 'Alchemy',
    docs: 'https://www.alchemy.com/docs/reference/notify-api-quickstart',
    steps: [
      "In the Alchemy dashboard, open Webhooks and create one with the webhook's URL.",
      'Open the webhook, copy its Signing Key, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-alchemy-signature' },
    eventType: 'json:/type',
  },
  // Source: SDK (anthropic-sdk-typescript, beta webhooks).
  {
    name: 'anthropic',
    title: 'Anthropic',
    docs: 'https://platform.claude.com/docs/en/managed-agents/webhooks',
    steps: [
      "In the Claude Console, create a webhook with the webhook's URL.",
      'Copy the signing secret (whsec_…) and paste it into Weir as it is.',
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
    eventType: 'json:/data/type',
  },
  // Source: third-party lists (one) and several receivers.
  {
    name: 'ashby',
    title: 'Ashby',
    docs: 'https://developers.ashbyhq.com/docs/authenticating-webhooks',
    steps: [
      "In Ashby, open Admin, Webhooks, and create a webhook with the webhook's URL as Request URL.",
      'Enter a secret token of your choice, and paste the same token into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'ashby-signature', prefix: 'sha256=' },
    eventType: 'json:/action',
  },
  // Source: documentation; the encoding (hex) from third-party lists.
  {
    name: 'attio',
    title: 'Attio',
    docs: 'https://docs.attio.com/rest-api/guides/webhooks',
    steps: [
      "In Attio, open the developer settings of your integration and add a webhook with the webhook's URL.",
      'Copy the secret of the webhook and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'attio-signature' },
  },
  // Source: third-party lists.
  {
    name: 'auth0',
    title: 'Auth0 log streams',
    docs: 'https://auth0.com/docs/customize/log-streams/custom-log-streams',
    steps: [
      "In the Auth0 Dashboard, open Monitoring, Streams, and create a Custom Webhook with the webhook's URL as Payload URL.",
      'Enter an authorization token of your choice, and paste the same text into Weir.',
    ],
    definition: { algorithm: 'token', header: 'authorization' },
    notes: 'Auth0 sends the token itself and does not sign the body.',
  },
  // Source: documentation.
  {
    name: 'autosend',
    title: 'AutoSend',
    docs: 'https://docs.autosend.com/others/webhooks/verify-requests',
    steps: [
      "In AutoSend, open Webhooks and create one with the webhook's URL.",
      'Copy its webhook secret and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-webhook-signature' },
    eventType: 'header:x-webhook-event',
  },
  // Source: third-party lists.
  {
    name: 'azure-devops',
    title: 'Azure DevOps',
    docs: 'https://learn.microsoft.com/en-us/azure/devops/service-hooks/services/webhooks',
    steps: [
      "In the project settings, open Service hooks, and create a subscription of the type Web Hooks with the webhook's URL.",
      'Enter a basic authentication user name and password of your choice.',
      'Enter them in Weir as user:password.',
    ],
    definition: { algorithm: 'basic', header: 'authorization' },
    eventType: 'json:/eventType',
    notes: 'Azure DevOps does not sign the body.',
  },
  // Source: documentation (docs repository bigcommerce/docs).
  {
    name: 'bigcommerce',
    title: 'BigCommerce',
    docs: 'https://developer.bigcommerce.com/docs/integrations/webhooks',
    steps: [
      "Create a webhook with the BigCommerce API, with the webhook's URL as destination.",
      'Copy the client secret of the API account that created the webhook and paste it into Weir as it is.',
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
      id: 'header:webhook-id',
    },
    eventType: 'json:/scope',
    notes: 'The key is the client secret itself, not decoded from base64.',
  },
  // Source: documentation (Bitbucket blog and Data Center event headers).
  {
    name: 'bitbucket',
    title: 'Bitbucket',
    docs: 'https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/',
    steps: [
      "In the repository, open Repository settings, Webhooks, Add webhook, and enter the webhook's URL.",
      'Enter or generate a secret, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hub-signature', prefix: 'sha256=' },
    eventType: 'header:x-event-key',
  },
  // Source: SDK (box-node-sdk); the window of ten minutes from the documentation by way of third-party lists.
  {
    name: 'box',
    title: 'Box',
    docs: 'https://developer.box.com/guides/webhooks/v2/signatures-v2/',
    steps: [
      'In the Box Developer Console, open your app, Webhooks, Manage signature keys, and generate the primary key.',
      "Create a webhook with the webhook's URL as address.",
      'Copy the primary signature key and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'box-signature-primary',
      encoding: 'base64',
      content: '{body}{timestamp}',
      timestamp: { from: 'header:box-delivery-timestamp', unit: 's', tolerance: 600 },
    },
    eventType: 'json:/trigger',
    notes: 'Only the signature with the primary key is checked; to rotate, make the new key the primary one.',
  },
  // Source: third-party lists (two); the documentation page was found but its section on verification was not read.
  {
    name: 'brex',
    title: 'Brex',
    docs: 'https://developer.brex.com/docs/webhooks',
    steps: [
      "Register a webhook with the Brex API, with the webhook's URL.",
      "Fetch the secret with the API's list of webhook secrets and paste it into Weir as it is, in base64.",
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
];
