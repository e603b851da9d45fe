/** Presets of senders, sonatype-nexus to telegram. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

/** A sender signs with a secret (v1) or with a private key (v1a). */
const standardWebhooks = {
  header: 'webhook-signature',
  items: ' ',
  pair: ',',
  encoding: 'base64',
  content: '{id}.{timestamp}.{body}',
  timestamp: { from: 'header:webhook-timestamp', unit: 's', tolerance: 300 },
  secret: 'base64',
  id: 'header:webhook-id',
} as const;

export const fromSonatypeNexus: readonly Preset[] = [
  // Source: documentation page as cited by receivers in public repositories.
  {
    name: 'sonatype-nexus',
    title: 'Sonatype Nexus Repository',
    docs: 'https://help.sonatype.com/en/working-with-hmac-payloads.html',
    steps: [
      "In Nexus Repository, open Administration, Capabilities, and create a webhook capability with the webhook's URL.",
      'Enter a secret key of your choice, and paste the same key into Weir.',
    ],
    definition: { algorithm: 'hmac-sha1', header: 'x-nexus-webhook-signature' },
    eventType: 'header:x-nexus-webhook-id',
  },
  // Source: documentation (docs repository spacelift-io/user-documentation).
  {
    name: 'spacelift',
    title: 'Spacelift',
    docs: 'https://docs.spacelift.io/integrations/webhooks',
    steps: [
      "In Spacelift, open Webhooks and create one with the webhook's URL as endpoint.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-signature-256', prefix: 'sha256=' },
  },
  // Source: third-party lists (one).
  {
    name: 'sparkpost',
    title: 'SparkPost',
    docs: 'https://developers.sparkpost.com/api/webhooks/',
    steps: [
      "In SparkPost, open Configuration, Webhooks, and create one with the webhook's URL as Target URL.",
      'Select Basic authentication, and choose a user name and password.',
      'Enter them in Weir as user:password.',
    ],
    definition: { algorithm: 'basic', header: 'authorization' },
    notes: 'SparkPost does not sign the body. One request can hold several events.',
  },
  // Source: SDK (square-nodejs-sdk).
  {
    name: 'square',
    title: 'Square',
    docs: 'https://developer.squareup.com/docs/webhooks/step3validate',
    steps: [
      'In the Square Developer Console, open your application, Webhooks, Subscriptions, and add a subscription.',
      "Enter the webhook's URL as Notification URL, exactly as Weir shows it, because Square signs it.",
      'Open the subscription, reveal its Signature key, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-square-hmacsha256-signature',
      encoding: 'base64',
      content: '{url}{body}',
    },
    eventType: 'json:/type',
  },
  // Source: third-party lists (one).
  {
    name: 'squarespace',
    title: 'Squarespace',
    docs: 'https://developers.squarespace.com/webhooks/overview',
    steps: [
      "Create a webhook subscription with Squarespace's API, with the webhook's URL as endpointUrl.",
      'Copy the secret from the response, in hex, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'squarespace-signature', secret: 'hex' },
    eventType: 'json:/topic',
  },
  // Source: documentation (the specification).
  {
    name: 'standard-webhooks',
    title: 'Standard Webhooks',
    docs: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md',
    steps: [
      "Enter the webhook's URL at the sender.",
      'Copy the signing secret (whsec_…) or the public key (whpk_…) that the sender shows, and paste it into Weir as it is.',
    ],
    definition: { ...standardWebhooks, algorithm: 'hmac-sha256', key: 'v1' },
    publicKeyDefinition: { ...standardWebhooks, algorithm: 'ed25519', key: 'v1a' },
    eventType: 'json:/type',
  },
  // Source: SDK (stripe-node).
  {
    name: 'stripe',
    title: 'Stripe',
    docs: 'https://docs.stripe.com/webhooks/signature',
    steps: [
      'In the Stripe Dashboard, open Workbench, Webhooks, and add a destination of the type Webhook endpoint.',
      "Enter the webhook's URL as Endpoint URL and select the events.",
      'Open the new destination, reveal its Signing secret (whsec_…), and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'stripe-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's', tolerance: 300 },
    },
    eventType: 'json:/type',
  },
  // Source: third-party lists (one: sent by Svix).
  {
    name: 'stytch',
    title: 'Stytch',
    docs: 'https://stytch.com/docs/guides/webhooks/overview',
    steps: [
      "In the Stytch Dashboard, open Webhooks and create an endpoint with the webhook's URL.",
      'Copy the signing secret of the endpoint (whsec_…) and paste it into Weir as it is.',
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
    eventType: 'json:/event_type',
  },
  // Source: documentation (its text on hook secrets, as copied in public repositories).
  {
    name: 'supabase-auth',
    title: 'Supabase Auth hooks',
    docs: 'https://supabase.com/docs/guides/auth/auth-hooks',
    steps: [
      "In Supabase, open Authentication, Auth Hooks, and add an HTTPS hook with the webhook's URL.",
      'Generate the secret (v1,whsec_…) and paste it into Weir without v1 and the comma before whsec_.',
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
    notes: 'Use it for hooks that need no answer in the response, such as Send Email and Send SMS.',
  },
  // Source: documentation (docs repository svix/svix-docs) and the specification.
  {
    name: 'svix',
    title: 'Svix',
    docs: 'https://docs.svix.com/receiving/verifying-payloads/how-manual',
    steps: [
      "In the sender's webhook portal, add an endpoint with the webhook's URL.",
      'Open the endpoint, copy its Signing Secret (whsec_…), and paste it into Weir as it is.',
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
  // Source: source code (the example in tailscale/tailscale).
  {
    name: 'tailscale',
    title: 'Tailscale',
    docs: 'https://tailscale.com/docs/features/webhooks',
    steps: [
      "In the Tailscale admin console, open Settings, Webhooks, and add an endpoint with the webhook's URL.",
      'Copy the webhook secret (tskey-webhook-…), which is shown once, and paste it into Weir as it is.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'tailscale-webhook-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's', tolerance: 300 },
    },
    notes: 'One request can hold several events.',
  },
  // Source: third-party lists (three).
  {
    name: 'tally',
    title: 'Tally',
    docs: 'https://tally.so/help/webhooks',
    steps: [
      "In Tally, open the form, Integrations, Webhooks, and connect the webhook's URL.",
      'Add a signing secret, copy it, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'tally-signature', encoding: 'base64' },
    eventType: 'json:/eventType',
  },
  // Source: source code (tdlib/telegram-bot-api).
  {
    name: 'telegram',
    title: 'Telegram Bot API',
    docs: 'https://core.telegram.org/bots/api#setwebhook',
    steps: [
      'Choose a secret token of letters, digits, hyphens and underscores.',
      "Call setWebhook of your bot with the webhook's URL and that secret_token.",
      'Paste the same token into Weir.',
    ],
    definition: { algorithm: 'token', header: 'x-telegram-bot-api-secret-token' },
    notes: 'Telegram sends the token itself and does not sign the body.',
  },
];
