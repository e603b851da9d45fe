/** Presets of senders, rootly to sonarqube. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromRootly: readonly Preset[] = [
  // Source: documentation.
  {
    name: 'rootly',
    title: 'Rootly',
    docs: 'https://docs.rootly.com/configuration/webhooks',
    steps: [
      "In Rootly, open Configuration, Webhooks, and create a webhook with the webhook's URL.",
      'Copy the webhook secret from its configuration and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-rootly-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}{body}',
      timestamp: { from: 'field:t', unit: 's' },
    },
    eventType: 'json:/event/type',
  },
  // Source: SDK (sanity-io/webhook-toolkit).
  {
    name: 'sanity',
    title: 'Sanity',
    docs: 'https://www.sanity.io/docs/content-lake/webhooks',
    steps: [
      "In Sanity's project management, open API, Webhooks, and create a webhook with the webhook's URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'sanity-webhook-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      encoding: 'base64url',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 'ms' },
    },
  },
  // Source: documentation.
  {
    name: 'savvycal',
    title: 'SavvyCal',
    docs: 'https://developers.savvycal.com/webhooks',
    steps: [
      "In SavvyCal, open Settings, Integrations, Webhooks, and add the webhook's URL.",
      'Copy the secret shown beside the webhook and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-savvycal-signature', prefix: 'sha256=' },
    eventType: 'json:/type',
  },
  // Source: documentation (docs repository segmentio/segment-docs).
  {
    name: 'segment',
    title: 'Segment',
    docs: 'https://segment.com/docs/connections/destinations/catalog/actions-webhook/',
    steps: [
      "In Segment, add the destination Webhooks (Actions) with the webhook's URL, without batching.",
      'Enter a shared secret of your choice in its settings, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha1', header: 'x-signature' },
    eventType: 'json:/type',
    notes: 'With batching, Segment signs the first event only, and Weir refuses the batch.',
  },
  // Source: third-party lists (one, which cites the documentation).
  {
    name: 'sendbird',
    title: 'Sendbird',
    docs: 'https://sendbird.com/docs/chat/platform-api/v3/webhook/webhook-overview',
    steps: [
      "In the Sendbird dashboard, open Settings, Webhooks, turn them on, and enter the webhook's URL.",
      'Copy the master API token of the application and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-sendbird-signature' },
    eventType: 'json:/category',
  },
  // Source: documentation.
  {
    name: 'sendcloud',
    title: 'Sendcloud',
    docs: 'https://sendcloud.dev/api/v2/webhooks',
    steps: [
      "In Sendcloud, open Settings, Integrations, edit the integration, and enter the webhook's URL as Webhook URL.",
      'Copy the Webhook Signature Key, or the Secret Key of an API integration, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'sendcloud-signature' },
    eventType: 'json:/action',
  },
  // Source: SDK (sendgrid-nodejs, package eventwebhook).
  {
    name: 'sendgrid',
    title: 'SendGrid Event Webhook',
    docs: 'https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features',
    steps: [
      "In SendGrid, open Settings, Mail Settings, Event Webhooks, and create one with the webhook's URL as Post URL.",
      'Turn on Signed Event Webhook, save, copy the Verification key, and paste it into Weir as public key.',
    ],
    definition: {
      algorithm: 'ecdsa-p256',
      header: 'x-twilio-email-event-webhook-signature',
      encoding: 'base64',
      content: '{timestamp}{body}',
      timestamp: { from: 'header:x-twilio-email-event-webhook-timestamp', unit: 's' },
      secret: 'base64',
    },
    notes: 'One request can hold several events.',
  },
  // Source: documentation (docs repository getsentry/sentry-docs).
  {
    name: 'sentry',
    title: 'Sentry',
    docs: 'https://docs.sentry.io/organization/integrations/integration-platform/webhooks/',
    steps: [
      "In Sentry, open Settings, Developer Settings, and create an integration with the webhook's URL as Webhook URL.",
      'Save it, copy its Client Secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'sentry-hook-signature' },
    eventType: 'header:sentry-hook-resource+json:/action',
  },
  // Source: documentation.
  {
    name: 'ship24',
    title: 'Ship24',
    docs: 'https://docs.ship24.com/webhooks/authentication',
    steps: [
      "In the Ship24 dashboard, open Integrations, Webhook, and enter the webhook's URL.",
      'Copy the webhook secret shown there and paste it into Weir.',
    ],
    definition: { algorithm: 'token', header: 'authorization', prefix: 'Bearer ' },
    notes: 'Ship24 sends the secret itself and does not sign the body.',
  },
  // Source: documentation; details from third-party receivers that quote it.
  {
    name: 'shippo',
    title: 'Shippo',
    docs: 'https://docs.goshippo.com/tracking/webhook-security',
    steps: [
      "In Shippo, open Settings, API, Webhooks, and add a webhook with the webhook's URL.",
      'Ask Shippo for HMAC and a secret as its page on webhook security describes, and paste the secret into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'shippo-auth-signature',
      items: ',',
      pair: '=',
      key: 'v1',
      content: '{timestamp}.{body}',
      timestamp: { from: 'field:t', unit: 's' },
    },
    eventType: 'json:/event',
  },
  // Source: third-party lists (three); the documentation page was found but its signature section was not read.
  {
    name: 'shopify',
    title: 'Shopify',
    docs: 'https://shopify.dev/docs/apps/build/webhooks/subscribe/https',
    steps: [
      "Subscribe to the topics in your app's configuration, or under Settings, Notifications, Webhooks, with the webhook's URL.",
      "Copy the app's client secret, or the signing secret shown below the list of webhooks, and paste it into Weir.",
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-shopify-hmac-sha256',
      encoding: 'base64',
      id: 'header:x-shopify-webhook-id',
    },
    eventType: 'header:x-shopify-topic',
  },
  // Source: documentation.
  {
    name: 'signatureapi',
    title: 'SignatureAPI',
    docs: 'https://signatureapi.com/docs/api/guides/how-to/verify-webhooks',
    steps: [
      "In SignatureAPI, add a webhook endpoint with the webhook's URL.",
      "Copy the signing secret (whsec_…) on the endpoint's page and paste it into Weir as it is.",
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
  },
  // Source: SDK (slackapi/bolt-js).
  {
    name: 'slack',
    title: 'Slack',
    docs: 'https://docs.slack.dev/authentication/verifying-requests-from-slack',
    steps: [
      'At api.slack.com/apps, open your app, Basic Information, App Credentials, and copy the Signing Secret.',
      'Paste the Signing Secret into Weir.',
      "Open Event Subscriptions, turn them on, and enter the webhook's URL as Request URL. Weir answers the verification.",
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-slack-signature',
      prefix: 'v0=',
      content: 'v0:{timestamp}:{body}',
      timestamp: { from: 'header:x-slack-request-timestamp', unit: 's', tolerance: 300 },
    },
    handshake: 'slack',
    eventType: 'json:/event/type',
  },
  // Source: third-party lists.
  {
    name: 'snyk',
    title: 'Snyk',
    docs: 'https://docs.snyk.io/snyk-api/using-specific-snyk-apis/webhooks-apis/validating-payloads',
    steps: [
      "Create a webhook with the Snyk API, with the webhook's URL and a secret of your choice.",
      'Paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hub-signature', prefix: 'sha256=' },
    eventType: 'header:x-snyk-event',
  },
  // Source: documentation (its example, as copied in public repositories).
  {
    name: 'sonarqube',
    title: 'SonarQube',
    docs: 'https://docs.sonarsource.com/sonarqube-server/project-administration/webhooks/',
    steps: [
      "In SonarQube, open Administration, Configuration, Webhooks, or the project's settings, and create one with the webhook's URL.",
      'Enter a secret of at least 16 characters, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-sonar-webhook-hmac-sha256' },
    eventType: 'json:/qualityGate/status',
  },
];
