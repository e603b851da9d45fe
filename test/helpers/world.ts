/** One of everything in one app, created like users create it, and a valid request for each operation. */
import { randomUUID } from 'node:crypto';
import { type OperationName, userRoutes } from '../../server/manage/api/routes.ts';
import { addAgent, send, startAgentApp, type TestAgent } from './agents.ts';
import type { Overrides, TestApp, TestWebhook } from './app.ts';
import { ApiDocument } from './openapi.ts';
import { addPerson, PASSWORD, type TestPerson } from './people.ts';
import { signedRequest } from './requests.ts';
import { until } from './wait.ts';

export interface World {
  app: TestApp;
  api: ApiDocument;
  administrator: TestPerson;
  webhook: TestWebhook;
  agent: TestAgent;
  event: string;
  /** A dismissal that can be undone. */
  action: string;
  /** Creates a resource of this collection (first word below /api/v1) that may be changed or deleted; returns its id. */
  make(collection: string): Promise<string>;
  stop(): Promise<void>;
}

/** Valid bodies for operations for which {} is not enough. */
export const inputs: Partial<Record<OperationName, (world: World) => unknown>> = {
  createToken: () => ({ name: 'a token', role: 'viewer', current_password: PASSWORD }),
  createUser: () => ({ email: `${randomUUID()}@example.org`, role: 'viewer', current_password: PASSWORD }),
  updateUser: () => ({ name: 'another', current_password: PASSWORD }),
  deleteUser: () => ({ current_password: PASSWORD }),
  createWebhook: () => ({ name: 'a webhook', generate_secret: true }),
  updateWebhook: () => ({ name: 'another' }),
  rotateSecret: () => ({}),
  createAgent: () => ({ name: 'an agent', current_password: PASSWORD }),
  rotateAgent: () => ({ current_password: PASSWORD }),
  updateAgent: () => ({ name: 'another' }),
  testFilter: ({ webhook }) => ({ webhook_id: webhook.id, filter: 'bytes < 10' }),
  setSubscription: () => ({ filter: 'bytes < 10' }),
  fixRejection: () => ({ kind: 'set_secret', secret: 'what the sender has' }),
  acceptRejections: ({ webhook }) => ({ webhook_id: webhook.id }),
  updateIssue: () => ({ assignee: 'ada@example.org' }),
  replayDeliveries: ({ agent }) => ({ agent_id: agent.id, state: 'dead' }),
  undoDeliveries: ({ action }) => ({ action_id: action }),
};

/** A route's path with this id, and below it the webhook of the world where there is a second one. */
export function pathTo(path: string, id: string, { webhook }: World): string {
  return path.replace(':id', id).replace(':webhook_id', webhook.id);
}

/** A request that makes something of the collection of an operation first, and succeeds: path and body. */
export async function requestOf(world: World, name: OperationName): Promise<[path: string, body: unknown]> {
  const [, path] = userRoutes.find((row) => row[2] === name)!;
  const collection = path.split('/')[3]!;
  const id = path.includes(':id') || collection === 'deliveries' ? await world.make(collection) : '';
  return [pathTo(path, id, world), inputs[name]?.(world) ?? {}];
}

export async function makeWorld(overrides: Overrides = {}): Promise<World> {
  const app = await startAgentApp(overrides);
  const administrator = await addPerson(app, 'administrator');
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook);
  const made: Record<string, () => Promise<string>> = {
    events: () => send(webhook),
    webhooks: async () => (await app.addWebhook()).id,
    agents: async () => (await addAgent(app)).id,
    users: async () => (await addPerson(app, 'viewer')).id,
    tokens: async () => (await administrator.api('POST', '/api/v1/tokens', { name: 'made', role: 'viewer' })).body.id,
    account: async () => (await addPerson(app, 'viewer')).sessionId,
    jobs: async () => {
      // Their number is limited.
      await app.sql(`update jobs set state = 'cancelled', finished_at = now() where finished_at is null`);
      return (await administrator.api('POST', '/api/v1/events/replay', {})).body.job_id;
    },
    deliveries: async () => {
      await send(webhook);
      const { id } = await agent.claimOne();
      await app.sql(`update deliveries set state = 'dead', finished_at = now() where id = $1`, id);
      return id;
    },
    // There is no such cell: it would need another server.
    cells: async () => '1',
    issues: async () => {
      await made.deliveries!();
      const { items } = (await administrator.api('GET', `/api/v1/issues?subject_id=${agent.id}`)).body;
      return items[0].id;
    },
    rejections: async () => {
      const mistyped = await app.addWebhook();
      await fetch(mistyped.url, signedRequest({ secret: 'what the sender has' }));
      const list = () => administrator.api('GET', `/api/v1/rejections?webhook_id=${mistyped.id}`);
      const id = await until(async () => (await list()).body.items[0]?.id as string);
      await app.webhooks.rotate(mistyped.id, { secret: 'what the sender has', overlap_seconds: 0 });
      return id;
    },
  };
  await made.deliveries!();
  const dismissed = await administrator.api('POST', '/api/v1/deliveries/dismiss', { agent_id: agent.id });
  return {
    app,
    api: new ApiDocument((await (await fetch(`${app.url}/api/v1/openapi.json`)).json()) as object),
    stop: app.stop,
    administrator,
    webhook,
    agent,
    event,
    action: dismissed.body.action_id,
    make: (collection) => {
      const make = made[collection];
      if (make === undefined) throw new Error(`test/helpers/world.ts does not say how to make one of ${collection}`);
      return make();
    },
  };
}
