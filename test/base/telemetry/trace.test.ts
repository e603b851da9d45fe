/** One request, followed by its id and its trace through the log, the event, the delivery and the command of an agent. */
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { traceparentOf } from '../../../server/base/telemetry/trace.ts';
import { environmentOf } from '../../../server/cli/consume/exec.ts';
import { startAgentApp, subscribed } from '../../helpers/agents.ts';
import { weirJson } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

const app = shared(startAgentApp);

async function post(url: string, secret: string, headers: Record<string, string>) {
  const request = signedRequest({ secret });
  const answer = await fetch(url, {
    ...request,
    headers: { ...(request.headers as Record<string, string>), ...headers },
  });
  expect(answer.status).toBe(202);
  return { requestId: answer.headers.get('x-request-id')!, id: ((await answer.json()) as { id: string }).id };
}

type Line = Record<string, unknown>;
/** The log line of a request, found by its id alone. */
const lineOf = (requestId: string): Promise<Line> =>
  until(() =>
    app.logLines
      .map((line) => JSON.parse(line) as Line)
      .find((line) => line.event === 'request' && line.request_id === requestId),
  );

test.each([
  ['that the sender chose', { 'X-Request-Id': 'order-4711' }],
  ['that Weir chose', {}],
])('a request is found everywhere by the id %s', async (_, given) => {
  const { webhook, agent } = await subscribed(app);
  const viewer = await addPerson(app, 'viewer');
  const trace = { traceparent: TRACE, tracestate: 'vendor=1', baggage: 'tenant=7,user=ada' };
  const { requestId, id } = await post(webhook.url, webhook.secret!, { ...given, ...trace });

  // The log leads from the request id to the event.
  expect(await lineOf(requestId)).toMatchObject({
    event_id: id,
    webhook_id: webhook.id,
    traceparent: TRACE,
    status: 202,
  });

  // The event leads back, on the API and on the command line.
  const stored = { 'x-request-id': requestId, ...trace };
  expect((await viewer.api('GET', `/api/v1/events/${id}`)).body.headers).toMatchObject(stored);
  expect((await weirJson(app, 'event', 'show', id)).headers).toMatchObject(stored);

  // The agent gets both with its delivery, and its command too.
  const delivery = await agent.claimOne();
  expect(delivery.event).toMatchObject({ id, headers: stored });
  const lines = commandEnvironment(delivery).split('\n');
  const expected = [`TRACEPARENT=${TRACE}`, 'TRACESTATE=vendor=1', 'BAGGAGE=tenant=7,user=ada'];
  expect(lines).toEqual(expect.arrayContaining([...expected, `WEIR_REQUEST_ID=${requestId}`, `WEIR_EVENT_ID=${id}`]));

  // The delivery names the event, also after its end.
  await agent.ack([delivery.receipt]);
  expect((await viewer.api('GET', `/api/v1/deliveries/${delivery.id}`)).body).toMatchObject({
    event_id: id,
    state: 'done',
  });
});

/** What `env` prints as the command of a delivery, in a process that has a trace itself. */
function commandEnvironment(delivery: object): string {
  const own = { TRACEPARENT: 'of the parent', TRACESTATE: 'of the parent', BAGGAGE: 'of the parent' };
  const env = { PATH: process.env.PATH, ...own, ...environmentOf(delivery as never) };
  return execFileSync('env', { env, encoding: 'utf8' });
}

describe('a traceparent', () => {
  test.each([
    ['absent', undefined],
    ['empty', ''],
    ['of version ff', TRACE.replace(/^00/, 'ff')],
    ['in upper case', TRACE.toUpperCase()],
    ['with a trace id of zeros', '00-00000000000000000000000000000000-b7ad6b7169203331-01'],
    ['with a parent id of zeros', '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'],
    ['too long', `${TRACE}0`],
    ['with a line end', `${TRACE}\n`],
  ])('that is %s is not used', (_, value) => {
    expect(traceparentOf(value)).toBeUndefined();
  });

  test('is used in each version and with any flags', () => {
    for (const value of [TRACE, TRACE.replace(/01$/, '00'), TRACE.replace(/^00/, 'cc')])
      expect(traceparentOf(value)).toBe(value);
  });

  test.each([
    ['that is malformed is stored as it came, and', { traceparent: 'none at all', tracestate: 'a=1' }],
    ['that is absent is', {}],
  ])('%s neither logged nor passed to a command', async (_, given) => {
    const { webhook, agent } = await subscribed(app);
    const { requestId } = await post(webhook.url, webhook.secret!, given);
    expect(await lineOf(requestId)).not.toHaveProperty('traceparent');
    const delivery = await agent.claimOne();
    expect(delivery.event.headers).toMatchObject(given);
    expect(commandEnvironment(delivery)).not.toMatch(/TRACE|BAGGAGE/);
  });
});
