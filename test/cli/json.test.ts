/** `--json` of every management command is the answer of an operation, valid against openapi.json. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildProgram } from '../../server/cli/command/program.ts';
import { managementCommands } from '../../server/cli/manage/commands.ts';
import type { OperationName } from '../../server/manage/api/routes.ts';
import { addAgent, send, startAgentApp, storeEvents } from '../helpers/agents.ts';
import { weir } from '../helpers/command.ts';
import { FAST, type Runner, startRunner } from '../helpers/jobs.ts';
import { ApiDocument } from '../helpers/openapi.ts';
import { addPerson } from '../helpers/people.ts';
import { emptyDatabase } from '../helpers/postgres.ts';
import { signatureOf, signedRequest } from '../helpers/requests.ts';
import { someKey, temporaryDirectory } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

// biome-ignore lint/suspicious/noExplicitAny: JSON documents, looked into by tests
type Document = any;

const cell = shared(emptyDatabase);
const app = shared(() =>
  startAgentApp({
    SECRETS_KEY: someKey,
    DELIVERY_MAX_ATTEMPTS: 1,
    // Nothing listens on port 9.
    ALERT_URL: 'http://127.0.0.1:9/alerts',
  }),
);
const administrator = shared(() => addPerson(app, 'administrator'));
const webhook = shared(() => app.addWebhook());
let api: ApiDocument;
let runner: Runner | undefined;
/** Ids of what the commands of a row take. */
const ids = { event: '', dead: ['', ''], rejection: '', similar: '' };
/** The last document of each command. */
const said = new Map<string, Document>();
const idOf = (command: string): string => said.get(command).id;

beforeAll(async () => {
  api = new ApiDocument((await (await fetch(`${app.url}/api/v1/openapi.json`)).json()) as object);
  const agent = await addAgent(app, [webhook]);
  ids.event = await send(webhook);
  await send(webhook);
  const claimed = await agent.claim();
  await agent.nack(claimed.map(({ receipt }) => receipt));
  ids.dead = claimed.map(({ id }) => id);
  const signed = await app.addWebhook({ secret: 'mistyped at first' });
  await fetch(signed.url, signedRequest({ secret: 'another', body: 'a' }));
  const other = await app.addWebhook({ secret: 'of the sender' });
  const headers = { 'x-signature': signatureOf('of the sender', 'b') };
  await fetch(other.url, { method: 'POST', body: 'b', headers });
  const rejections = () => app.sql<{ id: string }>('select id from rejections order by id');
  await until(async () => (await rejections()).length === 2);
  [ids.rejection, ids.similar] = (await rejections()).map(({ id }) => id) as [string, string];
  await storeEvents(app.database, webhook.id, 3, Date.now() - 1_000);
});
afterAll(() => runner?.stop());

/** Each command, the operation whose answer it prints, and its status. Null: the operation has no answer; the command prints the id. */
const rows: [
  command: string,
  operation: OperationName | null,
  status: number,
  args: () => string[] | Promise<string[]>,
  exitCode?: number,
][] = [
  ['webhook add', 'createWebhook', 201, () => ['--name', 'shop', '--generate-secret']],
  ['webhook list', 'listWebhooks', 200, () => []],
  ['webhook show', 'showWebhook', 200, () => ['shop']],
  ['webhook update', 'updateWebhook', 200, () => ['shop', '--description', 'orders']],
  ['webhook rotate', 'rotateSecret', 200, () => ['shop', '--overlap-seconds', '60']],
  ['webhook end-previous', null, 204, () => ['shop']],
  ['webhook enable', 'updateWebhook', 200, () => ['shop']],
  ['webhook disable', 'updateWebhook', 200, () => ['shop']],
  ['webhook usage', 'listWebhookUsage', 200, () => []],
  ['agent add', 'createAgent', 201, () => ['--name', 'ci', '--webhook', 'shop']],
  ['agent list', 'listAgents', 200, () => []],
  ['agent show', 'showAgent', 200, () => ['ci']],
  ['agent update', 'updateAgent', 200, () => ['ci', '--max-leased', '3']],
  ['agent subscribe', 'setSubscription', 200, () => ['ci', '--webhook', webhook.id, '--filter', 'bytes > 1']],
  ['agent webhooks', 'listAgentWebhooks', 200, () => ['ci']],
  ['agent unsubscribe', 'endSubscription', 200, () => ['ci', '--webhook', webhook.id]],
  ['agent pause', 'updateAgent', 200, () => ['ci']],
  ['agent resume', 'updateAgent', 200, () => ['ci']],
  ['agent rotate', 'rotateAgent', 200, () => ['ci']],
  ['agent revoke', null, 204, () => ['ci']],
  ['user add', 'createUser', 201, () => ['--email', 'ada@example.org', '--role', 'viewer']],
  ['user invite', 'createUser', 201, () => ['--email', 'grace@example.org', '--role', 'viewer']],
  ['user invite-again', 'inviteUser', 201, () => ['grace@example.org']],
  ['user revoke-invitation', null, 204, () => ['grace@example.org']],
  ['user list', 'listUsers', 200, () => []],
  ['user set-role', 'updateUser', 200, () => ['ada@example.org', 'operator']],
  ['user password', 'updateUser', 200, () => ['ada@example.org']],
  ['user disable', 'updateUser', 200, () => ['ada@example.org']],
  ['user enable', 'updateUser', 200, () => ['ada@example.org']],
  ['token add', 'createToken', 201, () => ['--email', 'ada@example.org', '--name', 'ci']],
  ['token list', 'listTokens', 200, () => []],
  ['token revoke', null, 204, () => [idOf('token add')]],
  ['user remove', null, 204, () => ['ada@example.org']],
  ['event list', 'listEvents', 200, () => ['--webhook', webhook.id]],
  ['event show', 'showEvent', 200, () => [ids.event]],
  ['event replay', 'replayEvent', 201, () => [ids.event]],
  ['job cancel', 'cancelJob', 200, async () => [await queuedJob()]],
  ['event replay', 'showJob', 200, () => replayed(['--webhook', webhook.id, '--yes'])],
  ['job list', 'listJobs', 200, () => []],
  ['job show', 'showJob', 200, () => [idOf('event replay')]],
  ['rejection list', 'listRejections', 200, () => []],
  ['rejection show', 'showRejection', 200, () => [ids.rejection]],
  ['rejection recheck', 'recheckRejection', 200, () => [ids.rejection], 1],
  ['rejection fix', 'fixRejection', 200, () => [ids.similar, '--use-header']],
  ['rejection accept', 'acceptRejection', 201, () => [ids.similar]],
  ['filter test', 'testFilter', 200, () => ['--webhook', webhook.id, '--filter', 'bytes > 1']],
  ['audit list', 'listAudit', 200, () => []],
  ['audit verify', 'verifyAudit', 200, () => []],
  ['issue list', 'listIssues', 200, () => []],
  ['issue show', 'showIssue', 200, () => [someIssue()]],
  ['issue assign', 'updateIssue', 200, () => [someIssue(), 'ada']],
  ['issue snooze', 'updateIssue', 200, () => [someIssue(), '--for', '4h']],
  ['delivery list', 'listDeliveries', 200, () => []],
  ['delivery show', 'showDelivery', 200, () => [ids.dead[0]!]],
  ['delivery dead', 'groupDeadLetters', 200, () => []],
  ['delivery dismiss', 'dismissDelivery', 200, () => [ids.dead[0]!]],
  ['delivery dismiss', 'dismissDeliveries', 200, () => ['--all-agents']],
  ['delivery undo', 'undoDeliveries', 200, () => [said.get('delivery dismiss').action_id]],
  ['delivery replay', 'replayDelivery', 200, () => [ids.dead[0]!]],
  ['delivery replay', 'replayDeliveries', 200, () => ['--all-agents']],
  ['alert list', 'listAlerts', 200, () => []],
  ['alert test', 'testAlert', 200, () => [], 1],
  ['history', 'showHistory', 200, () => []],
  ['latency', 'listLatency', 200, () => []],
  ['outage list', 'listOutages', 200, () => []],
  ['cell add', 'addCell', 201, () => ['--database-file', cellFile(), '--name', 'far']],
  ['cell list', 'listCells', 200, () => []],
  ['cell update', 'updateCell', 200, () => ['far', '--name', 'away']],
  ['cell move', 'moveWebhook', 200, () => ['shop', '--to', 'away']],
  ['cell drain', 'drainCell', 200, () => ['away']],
  ['cell remove', null, 204, () => ['away']],
  ['webhook remove', null, 204, () => ['shop']],
];

/** A file with the connection string of the cell. */
function cellFile(): string {
  const path = join(temporaryDirectory(), 'cell');
  writeFileSync(path, cell.conninfo);
  return path;
}

/** The dead letters of the agent are one, until they are dismissed or delivered. */
const someIssue = (): string => said.get('issue list').items[0].id;

async function queuedJob(): Promise<string> {
  const { body } = await administrator.api('POST', '/api/v1/events/replay', { webhook_id: webhook.id });
  return body.job_id;
}

/** The arguments of a replay whose job is run. */
function replayed(args: string[]): string[] {
  runner = startRunner(app, FAST);
  return args;
}

test.each(rows)('weir %s --json prints the answer of %s', async (command, operation, status, args, exitCode = 0) => {
  const { code, out, err } = await weir(app, ...command.split(' '), ...(await args()), '--json');
  expect([code, err]).toEqual([exitCode, '']);
  const document = JSON.parse(out);
  said.set(command, document);
  if (operation === null) return expect(document).toEqual({ id: expect.any(String) });
  const headers = new Headers({ 'content-type': 'application/json', 'x-request-id': 'none' });
  expect(api.faults(api.operation(operation), { status, headers, body: document })).toEqual([]);
});

test('the table has every command that calls the API', async () => {
  const io = {
    environment: {},
    directory: '/',
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
  };
  const program = await buildProgram(managementCommands(null), io);
  const names = program.commands.flatMap((command) =>
    command.commands.length === 0
      ? [command.name()]
      : command.commands.map((child) => `${command.name()} ${child.name()}`),
  );
  // These two call several: resources/configuration.test.ts.
  expect(new Set([...rows.map(([command]) => command), 'apply', 'export'])).toEqual(new Set(names));
});
