/** Trying a filter on stored events: by the API, a command and the page; and what shows a filter that fails. */
import { beforeAll, describe, expect, test } from 'vitest';
import { type Reached, schemaChecks } from '../../../server/operate/doctor/schema.ts';
import { addAgent, agentsOf, send } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { weir, weirJson } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { someKey } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startPagesApp({ SECRETS_KEY: someKey }));
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook({ name: 'orders' }));
const agent = shared(() => addAgent(app, [webhook]));
let events: string[];
beforeAll(async () => {
  events = [];
  for (const body of ['{"n":1}', '{"n":2}', 'no JSON']) events.unshift(await send(webhook, body));
});

const FILTER = 'body.n == 2';
const tryIt = (input: object) => operator.api('POST', '/api/v1/filters/test', { webhook_id: webhook.id, ...input });
const outcomes = [
  { verdict: 'failed', reason: 'No such key: n' },
  { verdict: 'passed', reason: null },
  { verdict: 'filtered', reason: null },
];

describe('the API', () => {
  test('says what would become of the newest events, and changes nothing', async () => {
    const { status, body } = await tryIt({ filter: FILTER });
    expect([status, body]).toEqual([
      200,
      {
        passed: 1,
        filtered: 1,
        failed: 1,
        undecided: 0,
        items: events.map((id, place) => ({
          event_id: id,
          event_type: null,
          received_at: expect.stringMatching(/Z$/),
          ...outcomes[place],
          key: null,
        })),
        last_day: { events: 3, passed: 2, exact: true },
      },
    ]);
    const { items } = (await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}`)).body;
    expect(items.map(({ state }: { state: string }) => state)).toEqual(['pending', 'pending', 'pending']);
  });

  test('reads at most as many events as asked for', async () => {
    expect((await tryIt({ filter: 'bytes > 7', events: 2 })).body).toMatchObject({ passed: 0, filtered: 2 });
  });

  test.each([
    ['a filter that is not valid', { filter: 'n == 2' }, '/filter'],
    ['no events', { filter: FILTER, events: 0 }, '/events'],
    ['too many events', { filter: FILTER, events: 201 }, '/events'],
  ])('refuses %s', async (_what, input, pointer) => {
    const { status, body } = await tryIt(input);
    expect([status, body.errors.map((error: { pointer: string }) => error.pointer)]).toEqual([422, [pointer]]);
  });

  test('does not find an unknown webhook', async () => {
    const { body } = await tryIt({ webhook_id: agent.id, filter: FILTER });
    expect(body).toMatchObject({ status: 404, code: 'webhook_unknown' });
  });
});

test('the command prints the same', async () => {
  const given = ['filter', 'test', '--webhook', webhook.id, '--filter', FILTER];
  expect(await weirJson(app, ...given)).toEqual((await tryIt({ filter: FILTER })).body);
  const { out } = await weir(app, ...given, '--events', '2');
  expect(out).toMatch(
    / failed +No such key: n\n[^\n]+ passed *\n\n1 passed, 0 filtered, 1 failed \(they would be delivered\)\.\nAbout 3 of 3 events of the last 24 hours would have been delivered\.\n$/,
  );
  const wrong = await weir(app, 'filter', 'test', '--webhook', webhook.id, '--filter', 'n ==');
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('filter: Character 5: unexpected token: EOF.')]);
});

test('the command gives up an expression that takes too long, as the server does', async () => {
  const slow = await app.addWebhook();
  for (let i = 0; i < 2; i++) await send(slow, JSON.stringify({ text: `${'a'.repeat(60)}b` }));
  const given = ['filter', 'test', '--webhook', slow.id, '--filter', 'body.text.matches("^(a+)+$")'];
  const hurried = await ofTest(startTestApp({ FILTER_TIMEOUT_MS: 50 }, app));
  const { out } = await weir(hurried, ...given);
  expect(out).toMatch(/ failed +it took longer than 50 ms\n.+ undecided *\n\n.* 1 left out: /);
});

describe('the page', () => {
  const page = () => operator.page(`/agents/${agent.id}`);
  const post = (fields: Record<string, string>) =>
    operator.submit(`/agents/${agent.id}/filter`, { webhook_id: webhook.id, ...fields });

  test('tries a filter without saving it, shows faults beside it, and saves it', async () => {
    expect(await page()).toContain(`/agents/${agent.id}/filter?webhook_id=${webhook.id}`);
    const tried = await post({ filter: FILTER, try: '1' });
    expect([tried.status, tried.text]).toEqual([
      200,
      expect.stringMatching(/1 event would be delivered, 1 event filtered\. The expression fails on 1 event/),
    ]);
    expect(tried.text).toContain('No such key: n');
    for (const more of [{}, { try: '1' }] as Record<string, string>[]) {
      const { status, text } = await post({ filter: 'n == 2', ...more });
      expect([status, text]).toEqual([422, expect.stringContaining('Character 1: unknown variable: n;')]);
    }
    expect(await page()).toContain('every event');
    expect(await post({ filter: FILTER })).toMatchObject({
      status: 303,
      location: expect.stringContaining(`/agents/${agent.id}?notice=saved&proof=`),
    });
    expect(await page()).toContain(`<code class="filter">${FILTER}</code>`);
  });

  test('shows a filter that is not valid in this version, and so does the doctor', async () => {
    made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: 'bytes > 1' }));
    const doctor = () => schemaChecks.filters({ database: app.database } as Reached);
    expect(await doctor()).toMatchObject({ state: 'ok' });
    await app.sql(`update subscriptions set filter = 'old(bytes)' where agent_id = $1`, agent.id);
    expect(await page()).toContain('Not valid in this version, so every event is delivered.');
    expect(await doctor()).toMatchObject([
      {
        state: 'problem',
        finding: expect.stringMatching(
          /so all events are delivered: that on webhook orders is not valid in this version \(Character 1: .*\)$/,
        ),
        fix: expect.stringContaining(`weir agent subscribe ${agent.id} --webhook ${webhook.id} --filter`),
      },
    ]);
    await operator.api('PUT', `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`, { filter: null });
    expect(await doctor()).toBe(null);
  });
});
