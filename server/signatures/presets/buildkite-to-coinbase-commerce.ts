/** Presets of senders, buildkite to coinbase-commerce. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromBuildkite: readonly Preset[] = [
  // Source: documentation (docs repository buildkite/docs).
  {
    name: 'buildkite',
    title: 'Buildkite',
    docs: 'https://buildkite.com/docs/apis/webhooks/pipelines',
    steps: [
      'In Buildkite, open Settings, Notification Services, and add a Webhook.',
      "Enter the webhook's URL and select to send the token as X-Buildkite-Signature.",
      'Copy the token and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-buildkite-signature',
      items: ',',
      pair: '=',
      key: 'signature',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:timestamp', unit: 's' },
    },
    eventType: 'header:x-buildkite-event',
  },
  // Source: source code (calcom/cal.com).
  {
    name: 'cal-com',
    title: 'Cal.com',
    docs: 'https://cal.com/docs/developing/guides/automation/webhooks',
    steps: [
      "In Cal.com, open Settings, Developer, Webhooks, and create a webhook with the webhook's URL as subscriber URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-cal-signature-256' },
    eventType: 'json:/triggerEvent',
  },
  // Source: documentation; details from third-party lists.
  {
    name: 'calendly',
    title: 'Calendly',
    docs: 'https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures',
    steps: [
      "Create a webhook subscription with Calendly's API, with the webhook's URL and a signing_key of your choice.",
      'For an OAuth app, use the signing key that Calendly generated for the app.',
      'Paste the signing key into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'calendly-webhook-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's', tolerance: 180 },
    },
    eventType: 'json:/event',
  },
  // Source: documentation and SDK (cashfree-pg-sdk-nodejs).
  {
    name: 'cashfree',
    title: 'Cashfree Payments',
    docs: 'https://www.cashfree.com/docs/payments/subscription/webhook-signature',
    steps: [
      "In the Cashfree dashboard, open Developers, Webhooks, and add the webhook's URL.",
      'Copy the client secret (webhook secret key) of the same account and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-webhook-signature',
      encoding: 'base64',
      content: '{timestamp}{body}',
      timestamp: { from: 'header:x-webhook-timestamp', unit: 'ms' },
    },
    eventType: 'json:/type',
  },
  // Source: SDK (castle-node).
  {
    name: 'castle',
    title: 'Castle',
    docs: 'https://docs.castle.io/docs/webhooks',
    steps: [
      "In the Castle dashboard, open the webhooks page and add the webhook's URL.",
      'Copy the API secret of the environment and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-castle-signature', encoding: 'base64' },
    eventType: 'json:/type',
  },
  // Source: SDK (chargebee-node: basicAuthValidator).
  {
    name: 'chargebee',
    title: 'Chargebee',
    docs: 'https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings',
    steps: [
      "In Chargebee, open Settings, Configure Chargebee, Webhooks, and add a webhook with the webhook's URL.",
      'Select to protect the webhook URL with basic authentication, and choose a user name and password.',
      'Enter them in Weir as user:password.',
    ],
    definition: { algorithm: 'basic', header: 'authorization' },
    eventType: 'json:/event_type',
    notes: 'Chargebee does not sign the body.',
  },
  // Source: third-party lists (three).
  {
    name: 'checkout-com',
    title: 'Checkout.com',
    docs: 'https://www.checkout.com/docs/developer-resources/webhooks',
    steps: [
      "In the Checkout.com Dashboard, open Developers, Webhooks, and create a webhook with the webhook's URL.",
      'Copy the signature key of the webhook and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'cko-signature' },
    eventType: 'json:/type',
  },
  // Source: third-party lists (one, which cites the documentation).
  {
    name: 'checkr',
    title: 'Checkr',
    docs: 'https://docs.checkr.com/#section/Webhooks',
    steps: [
      "In the Checkr dashboard, open Account settings, Developer settings, and add the webhook's URL.",
      'Copy the API key of the account that signs the webhooks and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-checkr-signature' },
    eventType: 'json:/type',
  },
  // Source: documentation (docs repository circleci/circleci-docs).
  {
    name: 'circleci',
    title: 'CircleCI',
    docs: 'https://circleci.com/docs/guides/integration/outbound-webhooks/',
    steps: [
      "In CircleCI, open Project Settings, Webhooks, Add Webhook, and enter the webhook's URL.",
      'Enter a secret token of your choice, and paste the same token into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'circleci-signature', items: ',', pair: '=', key: 'v1' },
    eventType: 'header:circleci-event-type',
  },
  // Source: documentation (docs repository clerk/clerk-docs: sent by Svix).
  {
    name: 'clerk',
    title: 'Clerk',
    docs: 'https://clerk.com/docs/guides/development/webhooks/syncing',
    steps: [
      "In the Clerk Dashboard, open Configure, Webhooks, Add Endpoint, and enter the webhook's URL.",
      'Open the new endpoint, copy its Signing Secret (whsec_…), and paste it into Weir as it is.',
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
  // Source: documentation.
  {
    name: 'clickup',
    title: 'ClickUp',
    docs: 'https://developer.clickup.com/docs/webhooksignature',
    steps: [
      "Create a webhook with ClickUp's API, with the webhook's URL as endpoint.",
      'Copy webhook.secret from the response and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-signature' },
    eventType: 'json:/event',
  },
  // Source: documentation (as repeated in public repositories).
  {
    name: 'close',
    title: 'Close',
    docs: 'https://developer.close.com/topics/webhooks/',
    steps: [
      "Create a webhook subscription with Close's API, with the webhook's URL.",
      'Copy signature_key from the response, which shows it once, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'close-sig-hash',
      content: '{timestamp}{body}',
      timestamp: { from: 'header:close-sig-timestamp', unit: 's' },
      secret: 'hex',
    },
    eventType: 'json:/event/object_type+json:/event/action',
  },
  // Source: third-party lists.
  {
    name: 'cloudflare-notifications',
    title: 'Cloudflare Notifications',
    docs: 'https://developers.cloudflare.com/notifications/get-started/configure-webhooks/',
    steps: [
      "In the Cloudflare dashboard, open Notifications, Destinations, Webhooks, and create one with the webhook's URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'token', header: 'cf-webhook-auth' },
    notes: 'Cloudflare sends the secret itself and does not sign the body.',
  },
  // Source: documentation.
  {
    name: 'cloudflare-stream',
    title: 'Cloudflare Stream',
    docs: 'https://developers.cloudflare.com/stream/manage-video-library/using-webhooks/',
    steps: [
      "Set the webhook's URL as notificationUrl with the Stream API of your account.",
      'Copy the secret from the response and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'webhook-signature',
      items: ',',
      pair: '=',
      key: 'sig1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:time', unit: 's' },
    },
  },
  // Source: SDK (coinbase-commerce-node).
  {
    name: 'coinbase-commerce',
    title: 'Coinbase Commerce',
    docs: 'https://docs.cdp.coinbase.com/commerce/docs/webhooks-security',
    steps: [
      "In Coinbase Commerce, open Settings, Notifications, and add an endpoint with the webhook's URL.",
      'Select Show shared secret, copy it, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-cc-webhook-signature' },
    eventType: 'json:/event/type',
  },
];
