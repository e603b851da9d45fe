/** The heading of a route in the document: its tag, a summary, and who may call it. */
import type { OperationAccess } from '../routes.ts';
import type { Json } from './schemas.ts';

/** The parts of the API, in reading order. A path belongs to the part that its first segment names. */
const tags = {
  health: 'Whether this process lives and can store events.',
  ingest: 'What senders call: signed requests become events.',
  agent: 'What agents call: claim deliveries, then acknowledge, return or extend them.',
  webhooks: 'Configured endpoints: their scheme, secrets, limits and activity.',
  'signature-schemes': 'How senders sign, by name.',
  events: 'Stored requests: lists, searches, bodies, exports and replay.',
  deliveries: 'Events on their way to agents, and dead letters.',
  jobs: 'Replays of many events, which run in the background.',
  rejections: 'Refused requests that were kept, their reasons and fixes.',
  agents: 'Agents, their credentials and subscriptions.',
  filters: 'Expressions that select the events of a subscription.',
  issues: 'What needs a person, who looks after it, and what was resolved.',
  alerts: 'Conditions that were reported to ALERT_URL.',
  outages: 'Times in which requests were refused or spooled.',
  history: 'Counts of requests and attempts, and latencies, over time.',
  counters: 'The newest counts of all processes.',
  stream: 'The same and new events, as server-sent events.',
  status: 'Versions, processes, settings and checks of this installation.',
  cells: 'Databases that store the events of some webhooks.',
  audit: 'Who changed what, chained by hashes.',
  users: 'People and their roles.',
  tokens: 'API tokens of users.',
  account: 'The signed-in user.',
  session: 'Sign-in and sign-out with a password.',
  setup: 'The first administrator.',
  invitation: 'The password of an invited user.',
  'openapi.json': 'This document.',
  configuration: 'Webhooks and agents as a file.',
} as const satisfies Record<string, string>;

export const tagList: Json[] = Object.entries(tags).map(([name, description]) => ({ name, description }));

/** The part of the API to which a path belongs: the tag of its route. */
function partOf(path: string): string {
  const [first, version, part] = path.split('/').slice(1);
  return first === 'api' && version === 'v1' ? part! : first === 'in' ? 'ingest' : 'health';
}

const callers: Readonly<Record<OperationAccess | 'signature', string>> = {
  anyone: 'For anyone.',
  signature: 'For senders: the request is signed by the scheme of the webhook.',
  'agent credential': 'For agents: the body or the bearer token is the credential.',
  agent: 'For agents, with a session or the credential.',
  'viewer or agent': 'For users of every role; an agent sees only its own data.',
  viewer: 'For users of every role.',
  operator: 'For operators and administrators.',
  administrator: 'For administrators.',
};

/** The members of an operation in the document that name and describe it. @param meaning column of the route table */
export function heading(operationId: string, path: string, access: keyof typeof callers, meaning: string): Json {
  const sentence = `${meaning[0]!.toUpperCase()}${meaning.slice(1)}.`;
  return { operationId, summary: meaning, description: `${sentence} ${callers[access]}`, tags: [partOf(path)] };
}
