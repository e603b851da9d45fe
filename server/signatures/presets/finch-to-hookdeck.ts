/** Presets of senders, finch to hookdeck. The comment above a preset names what its facts were taken from. */
import type { Preset } from '../preset.ts';

export const fromFinch: readonly Preset[] = [
  // Source: SDK (finch-api-node).
  {
    name: 'finch',
    title: 'Finch',
    docs: 'https://developer.tryfinch.com/how-finch-works/webhooks',
    steps: [
      "In the Finch dashboard, open Webhooks and add the webhook's URL.",
      'Copy the webhook secret and paste it into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'finch-signature',
      items: ' ',
      pair: ',',
      key: 'v1',
      encoding: 'base64',
      content: '{id}.{timestamp}.{body}',
      timestamp: { from: 'header:finch-timestamp', unit: 's', tolerance: 300 },
      secret: 'base64',
      id: 'header:finch-event-id',
    },
    eventType: 'json:/event_type',
  },
  // Source: third-party receivers (several).
  {
    name: 'flutterwave',
    title: 'Flutterwave',
    docs: 'https://developer.flutterwave.com/v3.0/docs/webhooks',
    steps: [
      "In the Flutterwave dashboard, open Settings, Webhooks, and enter the webhook's URL.",
      'Enter a secret hash of your choice, and paste the same text into Weir.',
    ],
    definition: { algorithm: 'token', header: 'verif-hash' },
    eventType: 'json:/event',
    notes: 'Flutterwave (v3) sends the secret hash itself and does not sign the body.',
  },
  // Source: third-party lists (several receivers).
  {
    name: 'forgejo',
    title: 'Forgejo',
    docs: 'https://forgejo.org/docs/latest/user/webhooks/',
    steps: [
      "In the repository, open Settings, Webhooks, Add webhook, Forgejo, and enter the webhook's URL as Target URL.",
      'Select the content type application/json.',
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-forgejo-signature' },
    eventType: 'header:x-forgejo-event+json:/action',
  },
  // Source: documentation.
  {
    name: 'fourthwall',
    title: 'Fourthwall',
    docs: 'https://docs.fourthwall.com/webhooks/signature-verification',
    steps: [
      "In the settings of your Fourthwall site, open Webhooks and add the webhook's URL.",
      'Copy the secret key shown on the same page and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-fourthwall-hmac-sha256', encoding: 'base64' },
    eventType: 'json:/type',
    notes: 'Platform apps sign with another header.',
  },
  // Source: third-party lists (several receivers).
  {
    name: 'framer',
    title: 'Framer',
    docs: 'https://www.framer.com/developers/webhooks',
    steps: [
      "In Framer, select the form and add Webhook under Send To, with the webhook's URL.",
      'Enter a secret of your choice for the form, and paste the same secret into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'framer-signature',
      prefix: 'sha256=',
      content: '{body}{id}',
      id: 'header:framer-webhook-submission-id',
    },
  },
  // Source: source code (TryGhost/Ghost).
  {
    name: 'ghost',
    title: 'Ghost',
    docs: 'https://docs.ghost.org/webhooks',
    steps: [
      "In Ghost Admin, open Settings, Integrations, add a custom integration, and add a webhook with the webhook's URL.",
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: {
      algorithm: 'hmac-sha256',
      header: 'x-ghost-signature',
      items: ',',
      pair: '=',
      key: 'sha256',
      content: '{body}{timestamp}',
      timestamp: { from: 'field:t', unit: 'ms' },
    },
    notes: 'Older versions of Ghost sign the body without the time: update Ghost.',
  },
  // Source: source code (go-gitea/gitea).
  {
    name: 'gitea',
    title: 'Gitea',
    docs: 'https://docs.gitea.com/usage/webhooks',
    steps: [
      "In the repository, open Settings, Webhooks, Add webhook, Gitea, and enter the webhook's URL as Target URL.",
      'Select the content type application/json.',
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-gitea-signature' },
    eventType: 'header:x-gitea-event+json:/action',
  },
  // Source: SDK (octokit/webhooks-methods.js).
  {
    name: 'github',
    title: 'GitHub',
    docs: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries',
    steps: [
      'In the repository or organization, open Settings, Webhooks, Add webhook.',
      "Enter the webhook's URL as Payload URL and select the content type application/json.",
      'Enter a secret of your choice under Secret, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hub-signature-256', prefix: 'sha256=' },
    eventType: 'header:x-github-event+json:/action',
  },
  // Source: documentation (the merge request that added it).
  {
    name: 'gitlab',
    title: 'GitLab (signing token)',
    docs: 'https://docs.gitlab.com/user/project/integrations/webhooks/',
    steps: [
      "In the project or group, open Settings, Webhooks, Add new webhook, and enter the webhook's URL.",
      'Generate a signing token (whsec_…), copy it, and paste it into Weir as it is.',
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
    eventType: 'header:x-gitlab-event',
  },
  // Source: documentation (GitLab issues and merge requests).
  {
    name: 'gitlab-token',
    title: 'GitLab (secret token)',
    docs: 'https://docs.gitlab.com/user/project/integrations/webhooks/',
    steps: [
      "In the project or group, open Settings, Webhooks, Add new webhook, and enter the webhook's URL.",
      'Enter a secret token of your choice, and paste the same token into Weir.',
    ],
    definition: { algorithm: 'token', header: 'x-gitlab-token' },
    eventType: 'header:x-gitlab-event',
    notes:
      'GitLab sends the token itself and does not sign the body; prefer the signing token where your GitLab has it.',
  },
  // Source: SDK (gocardless-nodejs).
  {
    name: 'gocardless',
    title: 'GoCardless',
    docs: 'https://developer.gocardless.com/getting-started/staying-up-to-date-with-webhooks',
    steps: [
      "In the GoCardless dashboard, open Developers, and create a webhook endpoint with the webhook's URL.",
      'Enter or copy the secret of the endpoint and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'webhook-signature' },
    notes: 'One request can hold several events.',
  },
  // Source: source code (gogs/gogs).
  {
    name: 'gogs',
    title: 'Gogs',
    docs: 'https://github.com/gogs/gogs',
    steps: [
      "In the repository, open Settings, Webhooks, Add a new webhook, Gogs, and enter the webhook's URL as Payload URL.",
      'Select the content type application/json.',
      'Enter a secret of your choice, and paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-gogs-signature' },
    eventType: 'header:x-gogs-event+json:/action',
  },
  // Source: documentation; details from receivers in public repositories.
  {
    name: 'grafana',
    title: 'Grafana Alerting',
    docs: 'https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/',
    steps: [
      "In Grafana, open Alerting, Contact points, and add one of the type Webhook with the webhook's URL.",
      'Under HMAC signature, enter a secret of your choice, and leave the header and the timestamp header empty.',
      'Paste the same secret into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-grafana-alerting-signature' },
    eventType: 'json:/status',
  },
  // Source: SDK (helpscout-api-php).
  {
    name: 'help-scout',
    title: 'Help Scout',
    docs: 'https://developer.helpscout.com/webhooks/',
    steps: [
      "In Help Scout, open Manage, Apps, Webhooks, and install a webhook with the webhook's URL as callback URL.",
      'Enter a secret key of your choice, and paste the same key into Weir.',
    ],
    definition: { algorithm: 'hmac-sha1', header: 'x-helpscout-signature', encoding: 'base64' },
    eventType: 'header:x-helpscout-event',
  },
  // Source: third-party lists (two).
  {
    name: 'heroku',
    title: 'Heroku',
    docs: 'https://devcenter.heroku.com/articles/app-webhooks',
    steps: [
      "Add a webhook to the app with the Heroku CLI or dashboard, with the webhook's URL.",
      'Enter a secret of your choice, or copy the one that Heroku prints once, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'heroku-webhook-hmac-sha256', encoding: 'base64' },
    eventType: 'json:/resource+json:/action',
  },
  // Source: documentation (hookdeck/webhook-skills).
  {
    name: 'hookdeck',
    title: 'Hookdeck Event Gateway',
    docs: 'https://hookdeck.com/docs/authentication',
    steps: [
      "In Hookdeck, create a destination with the webhook's URL and the authentication Hookdeck Signature.",
      'Open Settings, Secrets of the project, copy the signing secret, and paste it into Weir.',
    ],
    definition: { algorithm: 'hmac-sha256', header: 'x-hookdeck-signature', encoding: 'base64' },
  },
];
