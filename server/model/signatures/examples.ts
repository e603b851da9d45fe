/** Example requests of common senders, short forms of those in their documentation, for a test of a webhook. */

interface ExampleRequest {
  headers: Readonly<Record<string, string>>;
  body: object;
}

const gitlab: ExampleRequest = {
  headers: { 'x-gitlab-event': 'Push Hook' },
  body: {
    object_kind: 'push',
    ref: 'refs/heads/main',
    user_name: 'John Smith',
    project: { id: 15, path_with_namespace: 'mike/diaspora' },
    total_commits_count: 1,
  },
};

/** By the name of the preset. */
const examples: Readonly<Record<string, ExampleRequest>> = {
  github: {
    headers: { 'x-github-event': 'push' },
    body: {
      ref: 'refs/heads/main',
      repository: { id: 35129377, full_name: 'baxterthehacker/public-repo' },
      pusher: { name: 'baxterthehacker', email: 'baxterthehacker@example.com' },
      commits: [{ id: '0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c', message: 'Update README.md' }],
    },
  },
  gitlab,
  'gitlab-token': gitlab,
  paddle: {
    headers: {},
    body: {
      event_id: 'evt_01hv8wptq8987qeep44cyrewp9',
      event_type: 'transaction.paid',
      occurred_at: '2026-01-31T12:00:00.000000Z',
      data: { id: 'txn_01hv8wptq8987qeep44cyrewp9', status: 'paid', currency_code: 'USD' },
    },
  },
  shopify: {
    headers: { 'x-shopify-topic': 'orders/create', 'x-shopify-shop-domain': 'example.myshopify.com' },
    body: { id: 820982911946, name: '#9999', email: 'jon@example.com', currency: 'USD', total_price: '403.00' },
  },
  slack: {
    headers: {},
    body: {
      type: 'event_callback',
      team_id: 'T123ABC456',
      event: {
        type: 'app_mention',
        user: 'U123ABC456',
        text: 'Is it everything a river should be?',
        channel: 'C123ABC456',
      },
    },
  },
  stripe: {
    headers: {},
    body: {
      id: 'evt_1MqqbKLt4dXK03v5qaIbiNCC',
      object: 'event',
      type: 'invoice.paid',
      created: 1_769_860_800,
      livemode: false,
      data: { object: { id: 'in_1MtHbELkdIwHu7ixl4OzzPMv', object: 'invoice', amount_paid: 1000, currency: 'usd' } },
    },
  },
};

/** The example request of the sender of a scheme; null: the table has none. */
export function exampleRequest(scheme: string): ExampleRequest | null {
  return Object.hasOwn(examples, scheme) ? examples[scheme]! : null;
}
