/** `weir event replay` by filter, and `weir job`. */
import { afterEach, beforeAll, expect, test } from 'vitest';
import { commands } from '../../server/cli/commands.ts';
import { addAgent, startAgentApp, storeEvents } from '../helpers/agents.ts';
import { weir as run, runCommands, weirJson } from '../helpers/command.ts';
import { FAST, type Runner, startRunner } from '../helpers/jobs.ts';
import { someKey } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const EVENTS = 150;
const app = shared(startAgentApp);
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));
let runner: Runner | undefined;

beforeAll(async () => {
  await storeEvents(app.database, webhook.id, EVENTS, Date.now() - 1_000);
});
afterEach(async () => {
  await runner?.stop();
  runner = undefined;
  for (const table of ['jobs', 'deliveries']) await app.sql(`delete from ${table}`);
});

const countOf = async (table: string) => (await app.sql(`select from ${table}`)).length;

/** Runs the command with an answer to its question. */
function replay(stdin: string, ...args: string[]) {
  const { conninfo, settings } = app;
  const environment = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: settings.DATA_DIR };
  return runCommands(commands, '/', environment, ['event', 'replay', ...args], stdin);
}

test('weir event replay asks with the count, and replays when the answer is y', async () => {
  await app.sql('delete from deliveries');
  runner = startRunner(app, FAST);
  const { code, out, err } = await replay('y\n', '--webhook', webhook.id);
  expect([code, err]).toEqual([
    0,
    expect.stringMatching(/^ {2}test [0-9a-f-]{36}: 150 events\nReplay 150 events\? \[y\/N\] $/),
  ]);
  expect(out).toMatch(/^Replayed 150 events: 150 new deliveries\. Job [0-9a-f-]{36}\n$/);
  expect(await countOf('deliveries')).toBe(EVENTS);
});

test.each([['n\n'], ['']])('weir event replay creates nothing when the answer is %j', async (answer) => {
  const { code, err } = await replay(answer, '--webhook', webhook.id);
  expect(code).toBe(1);
  expect(err).toContain('nothing was replayed');
  expect(await countOf('jobs')).toBe(0);
});

test('--yes does not ask, --agent names the agents, and --json prints the job', async () => {
  runner = startRunner(app, FAST);
  const job = await weirJson(app, 'event', 'replay', '--from', '2020-01-01', '--agent', agent.id, '--yes');
  expect(job).toMatchObject({ state: 'done', events: EVENTS, agent_ids: [agent.id], created_by: { kind: 'command' } });
  expect((await weirJson(app, 'job', 'list')).items).toMatchObject([{ id: job.id, state: 'done' }]);
  expect((await run(app, 'job', 'list')).out).toMatch(/^ID +STATE +PROGRESS.*\n.* done +100% +150 +150 /);
});

test('Ctrl-C stops the watching, and says how to cancel the job', async () => {
  const running = replay('', '--webhook', webhook.id, '--yes');
  await until(async () => (await countOf('jobs')) === 1);
  await until(() => process.listenerCount('SIGINT') > 0);
  process.emit('SIGINT');
  const { code, out } = await running;
  expect(code).toBe(0);
  const id = /npx --no weir job cancel (\S+)/.exec(out)?.[1];
  expect((await run(app, 'job', 'cancel', id!)).out).toBe(`${id}: cancelled after 0 events and 0 deliveries.\n`);
  expect((await run(app, 'job', 'cancel', id!)).code).toBe(1);
});

test('the command fails when the job is cancelled', async () => {
  const running = replay('', '--webhook', webhook.id, '--yes');
  const id = await until(async () => (await weirJson(app, 'job', 'list')).items[0]?.id as string | undefined);
  await run(app, 'job', 'cancel', id);
  expect(await running).toMatchObject({ code: 1, err: expect.stringContaining('was cancelled after 0 events') });
  await app.sql(`update jobs set state = 'failed', reason = 'no agent' where id = $1`, id);
  expect((await run(app, 'job', 'list')).out).toMatch(/ REASON\n.* failed .* no agent\n$/);
  expect((await run(app, 'job', 'show', id)).out).toMatch(/^id +\S+\n(.*\n)*reason +no agent\n/);
  expect(await weirJson(app, 'job', 'show', id)).toMatchObject({ id, state: 'failed' });
  expect((await run(app, 'job', 'show', agent.id)).code).toBe(1);
});

test.each([
  ['neither an id nor a filter', [], 2, /give the id of an event, or a filter/],
  ['both', ['01900000-0000-7000-8000-000000000000', '--type', 'a'], 2, /not both/],
  ['times in the wrong order', ['--from', '2026-02-01', '--to', '2026-01-01T00:00:00Z'], 2, /Give a time/],
  ['a filter that nothing matches', ['--type', 'none'], 1, /no event matches/],
  [
    'an unknown agent',
    ['--yes', '--from', '2020-01-01T00:00:00Z', '--agent', '2f1c0d7e-0000-4000-8000-000000000000'],
    2,
    /No active agent has the id .* See: weir agent list/,
  ],
] as const)('weir event replay with %s is refused', async (_what, args, code, message) => {
  expect(await replay('', ...args)).toMatchObject({ code, err: expect.stringMatching(message) });
  expect(await countOf('jobs')).toBe(0);
});
