/** Example requests of common senders, short forms of those in their documentation, for a test of a webhook. */

interface ExampleRequest {
  headers: Readonly<Record<string, string>>;
  body: object;
}

/** By the name of the preset. */
const examples: Readonly<Record<string, ExampleRequest>> = {
  github: {
    headers: { 'x-github-event': 'push' },
    body: {
      ref: 'refs/heads/main',
      before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
      after: '0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c',
      repository: { id: 35129377, name: 'public-repo', full_name: 'baxterthehacker/public-repo' },
      pusher: { name: 'baxterthehacker', email: 'baxterthehacker@example.com' },
      commits: [
        { id: '0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c', message: 'Update README.md', modified: ['README.md'] },
      ],
    },
  },
  gitlab: { headers: { 'x-gitlab-event': 'Push Hook' }, body: gitlabPush() },
  'gitlab-token': { headers: { 'x-gitlab-event': 'Push Hook' }, body: gitlabPush() },
  paddle: {
    headers: {},
    body: {
      event_id: 'evt_01hv8wptq8987qeep44cyrewp9',
      event_type: 'transaction.paid',
      occurred_at: '2026-01-31T12:00:00.000000Z',
      data: {
        id: 'txn_01hv8wptq8987qeep44cyrewp9',
        status: 'paid',
        currency_code: 'USD',
        details: { totals: { total: '1000' } },
      },
    },
  },
  shopify: {
    headers: { 'x-shopify-topic': 'orders/create', 'x-shopify-shop-domain': 'example.myshopify.com' },
    body: {
      id: 820982911946,
      name: '#9999',
      email: 'jon@example.com',
      currency: 'USD',
      total_price: '403.00',
      line_items: [{ id: 866550311766, title: 'T-Shirt', quantity: 1, price: '29.99' }],
    },
  },
  slack: {
    headers: {},
    body: {
      type: 'event_callback',
      team_id: 'T123ABC456',
      api_app_id: 'A123ABC456',
      event: {
        type: 'app_mention',
        user: 'U123ABC456',
        text: 'Is it everything a river should be?',
        channel: 'C123ABC456',
        ts: '1515449522.000016',
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
      data: {
        object: {
          id: 'in_1MtHbELkdIwHu7ixl4OzzPMv',
          object: 'invoice',
          amount_paid: 1000,
          currency: 'usd',
          customer: 'cus_NeZwdNtLEOXuvB',
          status: 'paid',
        },
      },
    },
  },
};

/** The example of the sender of a scheme; null: there is not one. */
export function exampleOf(scheme: string): ExampleRequest | null {
  return Object.hasOwn(examples, scheme) ? examples[scheme]! : null;
}

function gitlabPush(): object {
  return {
    object_kind: 'push',
    event_name: 'push',
    ref: 'refs/heads/main',
    checkout_sha: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
    user_name: 'John Smith',
    project: { id: 15, name: 'Diaspora', path_with_namespace: 'mike/diaspora' },
    total_commits_count: 1,
  };
}
