/** Presets of senders, persona to revenuecat. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromPersona: readonly Preset[] = [
  // Source: third-party lists (one) and several receivers.
  {
    name: 'persona',
    title: 'Persona',
    docs: 'https://docs.withpersona.com/webhooks-best-practices',
    steps: [
      "In the Persona dashboard, open Webhooks and add one with the webhook's URL.",
      'Copy the webhook secret and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'persona-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's' },
    },
    eventType: 'json:/data/attributes/name',
  },
  // Source: third-party lists (two).
  {
    name: 'pipedrive',
    title: 'Pipedrive',
    docs: 'https://pipedrive.readme.io/docs/guide-for-webhooks-v2',
    steps: [
      "In Pipedrive, open Settings, Tools and apps, Webhooks, and create one with the webhook's URL as endpoint URL.",
      'Enter an HTTP Auth user name and password of your choice.',
      'Enter them in Weir as user:password.',
    ],
    definition: { algorithm: 'basic', header: 'authorization' },
    eventType: 'json:/meta/entity+json:/meta/action',
    notes: 'Pipedrive does not sign the body.',
  },
  // Source: documentation (as cited by receivers in public repositories).
  {
    name: 'plain',
    title: 'Plain',
    docs: 'https://www.plain.com/docs/request-signing',
    steps: [
      "In Plain, open Settings, Webhooks, and add a webhook target with the webhook's URL.",
      'Open Settings, Request signing, copy the secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'plain-request-signature' },
    eventType: 'json:/type',
  },
  // Source: source code (polarsource/polar).
  {
    name: 'polar',
    title: 'Polar',
    docs: 'https://polar.sh/docs/integrate/webhooks/endpoints',
    steps: [
      "In Polar, open Settings, Webhooks, and add an endpoint with the webhook's URL and the format Raw.",
      'Copy the secret of the endpoint and paste it into Weir as it is, with its prefix.',
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
    eventType: 'json:/type',
    notes: 'The key is the whole secret, prefix included, not decoded from base64.',
  },
  // Source: third-party lists (two).
  {
    name: 'postmark',
    title: 'Postmark',
    docs: 'https://postmarkapp.com/developer/webhooks/webhooks-overview',
    steps: [
      "In Postmark, open the server, the message stream, Webhooks, and add the webhook's URL.",
      'Enter a basic auth user name and password of your choice under Authentication.',
      'Enter them in Weir as user:password.',
    ],
    definition: { algorithm: 'basic', header: 'authorization' },
    eventType: 'json:/RecordType',
    notes: 'Postmark does not sign the body.',
  },
  // Source: documentation (as copied in public repositories).
  {
    name: 'pulumi',
    title: 'Pulumi Cloud',
    docs: 'https://www.pulumi.com/docs/deployments/webhooks/',
    steps: [
      "In Pulumi Cloud, open the settings of the organization or stack, Webhooks, and create one with the webhook's URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'pulumi-webhook-signature' },
    eventType: 'header:pulumi-webhook-kind',
  },
  // Source: SDK (pusher-http-node).
  {
    name: 'pusher',
    title: 'Pusher Channels',
    docs: 'https://pusher.com/docs/channels/server_api/webhooks/',
    steps: [
      "In the Pusher dashboard, open your app, Webhooks, and add the webhook's URL.",
      'Open App Keys, copy the secret of the oldest active key, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-pusher-signature' },
    notes: 'One request can hold several events.',
  },
  // Source: sample code of the sender (IntuitDeveloper/SampleApp-Webhooks-nodejs).
  {
    name: 'quickbooks',
    title: 'QuickBooks Online',
    docs: 'https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks',
    steps: [
      "In the Intuit developer portal, open your app, Webhooks, and enter the webhook's URL as endpoint URL.",
      'Select Show verifier token, copy it, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'intuit-signature', encoding: 'base64' },
    notes: 'One request can hold several events.',
  },
  // Source: SDK (razorpay-node).
  {
    name: 'razorpay',
    title: 'Razorpay',
    docs: 'https://razorpay.com/docs/webhooks/validate-test/',
    steps: [
      "In the Razorpay dashboard, open Account & Settings, Webhooks, and add the webhook's URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-razorpay-signature' },
    eventType: 'json:/event',
  },
  // Source: sample code of the sender (render-examples/webhook-github-action).
  {
    name: 'render',
    title: 'Render',
    docs: 'https://render.com/docs/webhooks',
    steps: [
      "In the Render dashboard, open Integrations, Webhooks, and create a webhook with the webhook's URL.",
      'Copy its signing secret (whsec_…) and paste it into Weir as it is.',
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
  // Source: documentation and SDK (replicate-javascript).
  {
    name: 'replicate',
    title: 'Replicate',
    docs: 'https://replicate.com/docs/topics/webhooks/verify-webhook',
    steps: [
      "Give the webhook's URL as webhook when you create a prediction or training.",
      "Fetch the signing secret (whsec_…) with Replicate's API for the default webhook secret, and paste it into Weir as it is.",
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
    eventType: 'json:/status',
  },
  // Source: documentation and SDK (resend-node).
  {
    name: 'resend',
    title: 'Resend',
    docs: 'https://resend.com/docs/webhooks/verify-webhooks-requests',
    steps: [
      "In Resend, open Webhooks, Add Webhook, and enter the webhook's URL as endpoint URL.",
      'Open the webhook, copy its signing secret (whsec_…), and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'svix-signature',
      items: ' ',
      pair: ',',
      key: 'v1',
      encoding: 'base64',
      content: '{id}.{timestamp}.{body}',
      timestamp: { from: 'header:svix-timestamp', unit: 's', tolerance: 300 },
      secret: 'base64',
      id: 'header:svix-id',
    },
    eventType: 'json:/type',
  },
  // Source: SDK (retell-typescript-sdk).
  {
    name: 'retell',
    title: 'Retell AI',
    docs: 'https://docs.retellai.com/features/secure-webhook',
    steps: [
      "In the Retell dashboard, open Settings, Webhooks, or the agent, and enter the webhook's URL.",
      'Open API Keys, copy the key with the webhook badge, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-retell-signature',
      items: ',',
      pair: '=',
      key: 'd',
      content: '{body}{timestamp}',
      timestamp: { from: 'field:v', unit: 'ms', tolerance: 300 },
    },
    eventType: 'json:/event',
  },
  // Source: third-party lists.
  {
    name: 'revenuecat',
    title: 'RevenueCat',
    docs: 'https://www.revenuecat.com/docs/integrations/webhooks',
    steps: [
      "In RevenueCat, open Integrations, Webhooks, and add a configuration with the webhook's URL.",
      'Enter an authorization header value of your choice, and paste the same value into Weir.',
    ],
    definition: { algorithm: 'token', header: 'authorization' },
    eventType: 'json:/event/type',
    notes: 'RevenueCat sends the value itself and does not sign the body in this mode.',
  },
];
