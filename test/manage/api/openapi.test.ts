/** The OpenAPI document: valid, complete, and correct for every response of this file. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, test } from 'vitest';
import { release } from '../../../server/base/files/build.ts';
import { plainDescriptions } from '../../../server/manage/api/openapi/document.ts';
import { type agentRoutes, operationRoutes, plainRoutes, userRoutes } from '../../../server/manage/api/routes.ts';
import { type DocumentedOperation, receiveAnswer } from '../../helpers/openapi.ts';
import { addPerson, PASSWORD, type TestPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { inputs, makeWorld, pathTo } from '../../helpers/world.ts';

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

/** The operation of the document with which each response is compared. */
function documented(name: string): DocumentedOperation {
  return world.api.operation(name);
}

function jsonRequest(method: string, headers: Record<string, string>, input?: unknown): RequestInit {
  return { method, headers, ...(method === 'GET' ? {} : { body: JSON.stringify(input ?? {}) }) };
}

/** Operations without a successful request here, with the reason. */
const elsewhere: Record<string, string> = {
  setUp: 'closed once there is an administrator; test/manage/auth',
  signIn: 'needs a password; test/manage/auth',
  acceptInvitation: 'needs an invitation link; test/manage/auth',
  inviteUser: 'needs a user without a password; test/manage/auth',
  endSession: 'needs a session of its own; test/manage',
  changePassword: 'needs a password; test/manage/auth',
  testAlert: 'needs ALERT_URL; test/manage/conditions',
  settleUndelivered: 'needs a revoked agent; test/manage/api/agents',
  endPreviousSecret: 'needs a rotation with an overlap; test/pages/webhooks/rotation',
  ...Object.fromEntries(
    ['moveWebhook', 'addCell', 'updateCell', 'drainCell', 'removeCell'].map((name) => [
      name,
      'needs another server; test/store/cells',
    ]),
  ),
};

describe('every operation responds as documented', () => {
  test.each(userRoutes.map(([method, path, name]) => ({ method, path, name })))(
    '$name',
    async ({ method, path, name }) => {
      const operation = documented(name);
      const person: TestPerson = await addPerson(world.app, 'administrator', PASSWORD);
      const viewer = await addPerson(world.app, 'viewer');
      const real = path.includes(':id') ? await world.make(path.split('/')[3]!) : '';
      const csrf = method === 'GET' ? {} : await csrfOf(person);
      const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
      const input = inputs[name]?.(world);
      const asked: [string, RequestInit][] = [
        [NOTHING, jsonRequest(method, {})],
        [NOTHING, jsonRequest(method, bearer('wu_nonsense'))],
        [NOTHING, jsonRequest(method, bearer(viewer.token))],
        [NOTHING, jsonRequest(method, bearer(world.agent.token))],
        ['nonsense', jsonRequest(method, bearer(person.token))],
        [NOTHING, jsonRequest(method, bearer(person.token))],
        [real, jsonRequest(method, { cookie: person.cookie, origin: 'https://elsewhere.example' })],
        ...(method === 'GET'
          ? []
          : [
              [real, { method, headers: bearer(person.token), body: '{' }] as [string, RequestInit],
              [real, jsonRequest(method, bearer(person.token), { no_such_member: 1 })] as [string, RequestInit],
            ]),
        [real, jsonRequest(method, { cookie: person.cookie, ...csrf, 'if-match': '"another"' }, input)],
        [real, jsonRequest(method, { cookie: person.cookie, ...csrf }, input)],
      ];
      const statuses: number[] = [];
      for (const [id, init] of asked) {
        const answer = await receive(pathTo(path, id, world), init);
        expect(world.api.faults(operation, answer)).toEqual([]);
        statuses.push(answer.status);
      }
      if (method === 'GET') {
        const answer = await receive(`${pathTo(path, real, world)}?no_such_parameter=1`, {
          headers: bearer(person.token),
        });
        expect(world.api.faults(operation, answer)).toEqual([]);
      }
      expect(statuses.filter((status) => status >= 500)).toEqual([]);
      if (!(name in elsewhere)) expect(statuses.some((status) => status < 300)).toBe(true);
    },
  );

  async function csrfOf(person: TestPerson): Promise<Record<string, string>> {
    const { body } = await receive('/api/v1/account', { headers: { cookie: person.cookie } });
    return {
      'x-csrf-token': (body as { csrf_token: string }).csrf_token,
      origin: new URL(world.app.settings.PUBLIC_URL).origin,
    };
  }
});

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
  await world.app.database.query({ text, values: [id] });
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
