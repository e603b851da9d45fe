/** The OpenAPI document: valid, complete, and correct for every response of this file. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, test } from 'vitest';
import { release } from '../../../server/base/files/build.ts';
import { plainDescriptions } from '../../../server/manage/api/openapi/document.ts';
import { type agentRoutes, operationRoutes, plainRoutes, userRoutes } from '../../../server/manage/api/routes.ts';
import { type DocumentedOperation, receiveAnswer } from '../../helpers/openapi.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { makeWorld, pathTo } from '../../helpers/world.ts';

const world = shared(makeWorld);

interface Described {
  info: object;
  tags: { name: string }[];
  components: { schemas: object };
  paths: Record<
    string,
    Record<
      string,
      {
        operationId: string;
        description: string;
        tags: string[];
        parameters?: { name: string; schema: object }[];
        responses: Record<string, { headers?: object; content?: object }>;
      }
    >
  >;
}

const NOTHING = '00000000-0000-7000-8000-000000000000';

describe('the document', () => {
  test('is OpenAPI 3.1 without broken references', async () => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(world.api.document));
    expect(result).toMatchObject({ valid: true });
    expect(validator.version).toBe('3.1');
    expect(JSON.stringify(validator.resolveRefs())).not.toContain('"$ref"');
    expect(JSON.stringify(world.api.document)).not.toContain('$defs');
  });

  test('contains exactly the routes of the table', () => {
    const described = plainRoutes.filter(([, , name]) => plainDescriptions[name] !== null);
    const routes = [...described, ...operationRoutes].map(
      ([method, path, name]) => `${method} ${path.replace(/:(\w+)/g, '{$1}')} ${name}`,
    );
    const documented = world.api.operations.map(({ method, path, operationId }) => `${method} ${path} ${operationId}`);
    expect(documented.toSorted()).toEqual(routes.toSorted());
  });

  test('says of each operation what it does, who may call it, and to which described part it belongs', () => {
    const { info, tags, paths, components } = world.api.document as unknown as Described;
    expect(info).toMatchObject({ version: release(), contact: { url: expect.stringMatching(/\/docs$/) } });
    const operations = Object.values(paths).flatMap((item) => Object.values(item));
    const used = new Set(operations.flatMap((operation) => operation.tags));
    expect(tags.map(({ name }) => name).toSorted()).toEqual([...used].toSorted());
    for (const { operationId, description } of operations)
      expect(description, operationId).toMatch(/^\S.+\. For .+\.$/);
    expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(['Agent', 'Webhook', 'Event', 'Delivery']));
  });

  test('names every format of an export, the pattern of a network, and entity tags only where they are sent', () => {
    const { paths } = world.api.document as unknown as Described;
    const exported = paths['/api/v1/events/export']!.get!;
    expect(Object.keys(exported.responses[200]!.content!)).toEqual(['application/x-ndjson', 'text/csv; charset=utf-8']);
    const source = exported.parameters!.find(({ name }) => name === 'source')!;
    expect(source.schema).toMatchObject({ pattern: expect.stringContaining('A-Fa-f') });
    expect(paths['/api/v1/webhooks']!.get!.responses[200]!.headers).toHaveProperty('ETag');
    for (const path of ['/healthz', '/readyz', '/api/v1/events/export', '/api/v1/stream']) {
      const { responses } = paths[path]!.get!;
      expect(responses[200]!.headers, path).not.toHaveProperty('ETag');
      expect(responses, path).not.toHaveProperty('304');
    }
  });

  test('can be cached and is revalidated by ETag', async () => {
    const { headers } = await fetch(`${world.app.url}/api/v1/openapi.json`);
    const again = await fetch(`${world.app.url}/api/v1/openapi.json`, {
      headers: { 'if-none-match': headers.get('etag')! },
    });
    expect([again.status, await again.text()]).toEqual([304, '']);
  });
});

const receive = (path: string, init: RequestInit) => receiveAnswer(world.app.url + path, init);

test('each path refuses the methods that it lacks, and lists those that it has', async () => {
  const { paths } = world.api.document as unknown as Described;
  for (const [path, item] of Object.entries(paths)) {
    if (path === '/in/{webhook_id}') continue; // A handshake decides.
    const has = Object.keys(item).flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      if (has.includes(method)) continue;
      const url = world.app.url + path.replace(/\{\w+\}/g, NOTHING);
      const { status, headers } = await fetch(url, { method, headers: { cookie: world.administrator.cookie } });
      const allowed = headers
        .get('allow')
        ?.split(', ')
        .filter((name) => name !== 'OPTIONS');
      expect([status, allowed?.toSorted()], `${method} ${path}`).toEqual([405, has.toSorted()]);
    }
  }
});

/** The operation of the document with which each response is compared. */
function documented(name: string): DocumentedOperation {
  return world.api.operation(name);
}

/** What changes something: audit/coverage.test.ts; what is refused: access.test.ts. */
test.each(userRoutes.filter(([method]) => (method as string) === 'GET').map(([, path, name]) => ({ path, name })))(
  '$name responds as documented',
  async ({ path, name }) => {
    const [id, { cookie }] = [path.includes(':id') ? await world.make(path.split('/')[3]!) : '', world.administrator];
    for (const [query, isGood] of [
      ['', true],
      ['?no_such_parameter=1', false],
    ] as const) {
      const answer = await receive(pathTo(path, id, world) + query, { headers: { cookie } });
      expect(world.api.faults(documented(name), answer)).toEqual([]);
      if (isGood) expect(answer.status).toBe(200);
    }
  },
);

describe('every other route responds as documented', () => {
  const asked: Record<
    Exclude<
      (typeof plainRoutes | typeof agentRoutes)[number][2],
      'asset' | 'clientPackage' | 'currentClient' | 'pythonClient' | 'mcp'
    >,
    () => [string, RequestInit, number][]
  > = {
    live: () => [['/healthz', {}, 200]],
    ready: () => [['/readyz', {}, 200]],
    ingest: () => [
      [world.webhook.path, signedRequest({ secret: world.webhook.secret }), 202],
      [world.webhook.path, { method: 'POST', body: 'x' }, 403],
      [`/in/${NOTHING}`, { method: 'POST', body: 'x' }, 404],
      [world.webhook.path, { method: 'POST', body: 'x'.repeat(1_048_577) }, 413],
    ],
    handshake: () => [[world.webhook.path, {}, 405]],
    handshakeOptions: () => [
      [world.webhook.path, { method: 'OPTIONS' }, 405],
      [world.webhook.path, { method: 'OPTIONS', headers: { 'webhook-request-origin': 'a.example' } }, 200],
    ],
    ingestBatch: () => [
      [`${world.webhook.path}/batch`, signedRequest({ secret: world.webhook.secret, body: '{}\n{}' }), 202],
      [`${world.webhook.path}/batch`, signedRequest({ secret: world.webhook.secret, body: '{' }), 422],
      [`${world.webhook.path}/batch`, signedRequest({ secret: world.webhook.secret, body: '\n' }), 422],
    ],
    agentSession: () => [
      ['/api/v1/agent/session', asAgent({}, world.agent.credential), 200],
      ['/api/v1/agent/session', asAgent({ more: 1 }, world.agent.credential), 422],
      ['/api/v1/agent/session', asAgent({}, 'wa_nonsense'), 401],
    ],
    agentMe: () => [['/api/v1/agent/me', { headers: { authorization: `Bearer ${world.agent.token}` } }, 200]],
    claim: () => agentRoute('claim', { max: 10 }),
    ack: () => agentRoute('ack', { receipts: ['x'] }),
    nack: () => agentRoute('nack', { receipts: ['x'] }),
    extend: () => agentRoute('extend', { receipts: ['x'], lease_seconds: 30 }),
  };

  const asAgent = (input: unknown, token: string): RequestInit => ({
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(input),
  });

  function agentRoute(action: string, input: unknown): [string, RequestInit, number][] {
    const path = `/api/v1/agent/deliveries/${action}`;
    const { token } = world.agent;
    return [
      [path, asAgent(input, token), 200],
      [path, asAgent({ nonsense: true }, token), 422],
      [path, { ...asAgent(input, token), body: '[' }, 400],
      [path, asAgent(input, 'wu_nonsense'), 401],
    ];
  }

  test.each(Object.keys(asked) as (keyof typeof asked)[])('%s', async (name) => {
    await world.make('events');
    for (const [path, init, status] of asked[name]()) {
      const answer = await receive(path, init);
      expect(answer.status).toBe(status);
      expect(world.api.faults(documented(name), answer)).toEqual([]);
    }
  });
});

test.each(['ingest', 'ingestBatch'])('%s responds as documented when the secret cannot be used', async (name) => {
  const { id, path, secret } = await world.app.addWebhook();
  const text = `update webhooks set signature_scheme = 'later' where id = $1`;
  await world.app.sql(text, id);
  const url = name === 'ingest' ? path : `${path}/batch`;
  const answer = await until(async () => {
    const found = await receive(url, signedRequest({ secret, body: '{}' }));
    return found.status === 503 && found;
  });
  expect(answer.body).toMatchObject({ code: 'secret_unavailable' });
  expect(world.api.faults(documented(name), answer)).toEqual([]);
});

test('a response that the OpenAPI document lacks is detected', () => {
  const operation = documented('showAccount');
  const fields = { 'content-type': 'application/json', 'x-request-id': 'x' };
  const answer = (status: number, body: unknown, headers: Record<string, string> = fields) =>
    world.api.faults(operation, { status, body, headers: new Headers(headers) });
  expect(answer(200, { id: 1 })).toEqual([expect.stringContaining("must have required property 'email'")]);
  expect(answer(418, {})).toEqual([expect.stringContaining('not documented')]);
  expect(answer(200, 'text', { ...fields, 'content-type': 'text/html' })).toHaveLength(1);
  expect(answer(503, {})).toEqual([expect.stringContaining('no Retry-After')]);
  expect(answer(200, {}, { 'content-type': 'application/json' })).toHaveLength(1);
});
