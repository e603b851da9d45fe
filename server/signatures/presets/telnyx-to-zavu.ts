/** Presets of senders, telnyx to zavu. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromTelnyx: readonly Preset[] = [
  // Source: SDK (telnyx-node).
  {
    name: 'telnyx',
    title: 'Telnyx',
    docs: 'https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks',
    steps: [
      "In the Telnyx portal, enter the webhook's URL in the messaging profile, application or connection.",
      'Open Account Settings, Keys & Credentials, Public Key, copy the key, and paste it into Weir as public key.',
    ],
    definition: {
      algorithm: 'ed25519',
      header: 'telnyx-signature-ed25519',
      encoding: 'base64',
      content: '{timestamp}|{body}',
      timestamp: { from: 'header:telnyx-timestamp', unit: 's', tolerance: 300 },
      secret: 'base64',
    },
    eventType: 'json:/data/event_type',
  },
  // Source: SDK (terra-python, as used in public repositories) and third-party receivers.
  {
    name: 'terra',
    title: 'Terra',
    docs: 'https://docs.tryterra.co/health-and-fitness-api/integration-setup/setting-up-data-destinations/webhooks',
    steps: [
      "In the Terra dashboard, open Destinations, add a webhook, and enter the webhook's URL.",
      'Copy the signing secret shown there and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'terra-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's' },
    },
    eventType: 'json:/type',
  },
  // Source: third-party lists (several receivers).
  {
    name: 'terraform',
    title: 'HCP Terraform',
    docs: 'https://developer.hashicorp.com/terraform/cloud-docs/workspaces/settings/notifications',
    steps: [
      "In HCP Terraform, open the workspace, Settings, Notifications, and create a Webhook with the webhook's URL.",
      'Enter a token of your choice, and paste the same token into Weir.',
    ],
    definition: { algorithm: 'hmac-sha512', header: 'x-tfe-notification-signature' },
  },
  // Source: third-party lists (one) and receivers that quote the documentation.
  {
    name: 'tiktok',
    title: 'TikTok for Developers',
    docs: 'https://developers.tiktok.com/doc/webhooks-verification',
    steps: [
      "In the TikTok developer portal, open your app, Webhooks, and enter the webhook's URL as Callback URL.",
      'Copy the Client secret of the app and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'tiktok-signature',
      items: ',',
      pair: '=',
      key: 's',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's' },
    },
    eventType: 'json:/event',
  },
  // Source: third-party lists (several receivers).
  {
    name: 'todoist',
    title: 'Todoist',
    docs: 'https://developer.todoist.com/api/v1/#tag/Webhooks',
    steps: [
      "In the Todoist App Management Console, open your app, Webhooks, and enter the webhook's URL as callback URL.",
      'Copy the Client secret of the app and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-todoist-hmac-sha256', encoding: 'base64' },
    eventType: 'json:/event_name',
  },
  // Source: third-party lists (four).
  {
    name: 'typeform',
    title: 'Typeform',
    docs: 'https://www.typeform.com/developers/webhooks/secure-your-webhooks/',
    steps: [
      "In Typeform, open the form, Connect, Webhooks, and add a webhook with the webhook's URL.",
      'Edit the webhook, enter a secret of your choice, and paste the same secret into Weir.',
      'Turn the webhook on.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'typeform-signature', prefix: 'sha256=', encoding: 'base64' },
    eventType: 'json:/event_type',
  },
  // Source: SDK (uploadcare-ruby, its README) and third-party receivers.
  {
    name: 'uploadcare',
    title: 'Uploadcare',
    docs: 'https://uploadcare.com/docs/webhooks/',
    steps: [
      "In the Uploadcare dashboard, open the project, Webhooks, and add a webhook with the webhook's URL.",
      'Enter a signing secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-uc-signature', prefix: 'v1=' },
    eventType: 'json:/hook/event',
  },
  // Source: third-party lists (four).
  {
    name: 'vercel',
    title: 'Vercel',
    docs: 'https://vercel.com/docs/webhooks/webhooks-api',
    steps: [
      "In Vercel, open the team's Settings, Webhooks, and create a webhook with the webhook's URL.",
      'Copy the secret, which is shown once, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha1', header: 'x-vercel-signature' },
    eventType: 'json:/type',
  },
  // Source: SDK (js-webflow-api).
  {
    name: 'webflow',
    title: 'Webflow',
    docs: 'https://developers.webflow.com/data/docs/working-with-webhooks',
    steps: [
      "In Webflow, open the site settings, Apps & integrations, Webhooks, and add a webhook with the webhook's URL.",
      'Copy the secret key of the webhook, or the client secret of the app that created it, and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-webflow-signature',
      content: '{timestamp}:{body}',
      timestamp: { from: 'header:x-webflow-timestamp', unit: 'ms' },
    },
    eventType: 'json:/triggerType',
  },
  // Source: documentation (as repeated in public repositories).
  {
    name: 'whoop',
    title: 'WHOOP',
    docs: 'https://developer.whoop.com/docs/developing/webhooks/',
    steps: [
      "In the WHOOP Developer Dashboard, open your app and enter the webhook's URL under Webhooks.",
      'Copy the Client secret of the app and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-whoop-signature',
      encoding: 'base64',
      content: '{timestamp}{body}',
      timestamp: { from: 'header:x-whoop-signature-timestamp', unit: 'ms' },
    },
    eventType: 'json:/type',
  },
  // Source: source code (woocommerce/woocommerce, in part) and third-party lists (three).
  {
    name: 'woocommerce',
    title: 'WooCommerce',
    docs: 'https://woocommerce.github.io/woocommerce-rest-api-docs/#webhooks',
    steps: [
      "In WordPress, open WooCommerce, Settings, Advanced, Webhooks, and add one with the webhook's URL as Delivery URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-wc-webhook-signature', encoding: 'base64' },
    eventType: 'header:x-wc-webhook-topic',
    notes:
      'The test request that WooCommerce sends on saving is not signed: Weir refuses it, and WooCommerce shows an error. Signed deliveries are accepted.',
  },
  // Source: SDK (workos-node).
  {
    name: 'workos',
    title: 'WorkOS',
    docs: 'https://workos.com/docs/events/data-syncing/webhooks',
    steps: [
      "In the WorkOS dashboard, open Webhooks and create an endpoint with the webhook's URL.",
      'Copy the secret of the endpoint and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'workos-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 'ms', tolerance: 180 },
    },
    eventType: 'json:/event',
  },
  // Source: third-party receivers (several).
  {
    name: 'xendit',
    title: 'Xendit',
    docs: 'https://docs.xendit.co/webhook',
    steps: [
      "In the Xendit dashboard, open Settings, Webhooks, and enter the webhook's URL for the products you use.",
      'Copy the webhook verification token from the same page and paste it into Weir.',
    ],
    definition: { algorithm: 'token', header: 'x-callback-token' },
    notes: 'Xendit sends the token itself and does not sign the body.',
  },
  // Source: documentation.
  {
    name: 'zavu',
    title: 'Zavu',
    docs: 'https://docs.zavu.dev/guides/receiving-messages/security',
    steps: [
      "In Zavu, open the webhook of your sender and enter the webhook's URL.",
      'Copy its webhook secret and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-zavu-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's' },
    },
  },
];
