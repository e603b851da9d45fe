/**
 * Every route of Weir, one line each, with its access and the meaning of its response. The README's table is generated from it. A
 * plain route handles its requests itself; an operation is served by api/serve.ts, which authenticates first.
 */

import type { Person } from '../auth/person.ts';
import type { Reader } from '../auth/reader.ts';
import type { Role } from '../db/roles.ts';
import { problems } from '../errors.ts';
import type { Method } from '../http/route.ts';
import { plainDescriptions } from './openapi/plain.ts';
import type { Operation } from './operation.ts';

/** `signature`: signature of the webhook; `agent`: credential or session of an agent. */
type PlainAccess = 'anyone' | 'signature' | 'agent';
/** `anyone`, or the lowest role allowed. On mixed routes an agent is allowed too, and sees only its own data. */
export type OperationAccess = Role | 'viewer or agent' | 'anyone';

export const plainRoutes = [
  ['GET', '/healthz', 'live', 'anyone', '200 while the process is alive'],
  ['GET', '/readyz', 'ready', 'anyone', '200 when a webhook sent now would be stored; else 503 that names what fails'],
  ['POST', '/in/:webhook_id', 'ingest', 'signature', '202 once the event is committed, 200 for a repeat'],
  ['POST', '/in/:webhook_id/batch', 'ingestBatch', 'signature', '202 once every line is committed as an event'],
  ['POST', '/api/v1/agent/session', 'agentSession', 'agent', 'a session for an agent credential'],
  ['GET', '/api/v1/agent/me', 'agentMe', 'agent', 'the agent itself'],
  ['POST', '/api/v1/agent/deliveries/claim', 'claim', 'agent', 'deliveries under lease; waits for some if need be'],
  ['POST', '/api/v1/agent/deliveries/ack', 'ack', 'agent', 'which receipts are done, and which leases were lost'],
  ['POST', '/api/v1/agent/deliveries/nack', 'nack', 'agent', 'the same, for deliveries that are to be tried again'],
  ['POST', '/api/v1/agent/deliveries/extend', 'extend', 'agent', 'the same, for leases that need more time'],
  ['GET', '/assets/:name', 'asset', 'anyone', 'style sheet and scripts of the pages, kept by browsers for ever'],
] as const satisfies readonly (readonly [Method, string, string, PlainAccess, string])[];

export const operationRoutes = [
  ['GET', '/api/v1/openapi.json', 'showOpenApi', 'anyone', 'this API as OpenAPI 3.1'],
  ['POST', '/api/v1/setup', 'setUp', 'anyone', 'the first administrator, signed in; 404 once there is one'],
  ['POST', '/api/v1/session', 'signIn', 'anyone', 'a session as a cookie, for an email and a password'],
  ['DELETE', '/api/v1/session', 'signOut', 'viewer', 'ends the session that asks'],
  ['GET', '/api/v1/account', 'showAccount', 'viewer', 'whoever asks'],
  ['GET', '/api/v1/account/sessions', 'listSessions', 'viewer', 'where one is signed in'],
  ['DELETE', '/api/v1/account/sessions', 'endSessions', 'viewer', 'signs one out everywhere'],
  ['DELETE', '/api/v1/account/sessions/:id', 'endSession', 'viewer', 'signs one out in one browser'],
  [
    'POST',
    '/api/v1/account/password',
    'changePassword',
    'viewer',
    'a new password; all other sessions end, and API tokens if asked',
  ],
  ['GET', '/api/v1/webhooks', 'listWebhooks', 'viewer or agent', 'webhooks, newest first'],
  ['POST', '/api/v1/webhooks', 'createWebhook', 'operator', '201 and the webhook; a generated secret, once'],
  ['GET', '/api/v1/webhooks/activity', 'listWebhookActivity', 'viewer', 'when each last stored or refused a request'],
  ['GET', '/api/v1/webhooks/:id', 'showWebhook', 'viewer or agent', 'one webhook'],
  ['PATCH', '/api/v1/webhooks/:id', 'updateWebhook', 'operator', 'the webhook, with the given members changed'],
  ['DELETE', '/api/v1/webhooks/:id', 'deleteWebhook', 'operator', '204; its events stay'],
  ['POST', '/api/v1/webhooks/:id/rotate-secret', 'rotateSecret', 'operator', 'the webhook; a generated secret, once'],
  ['GET', '/api/v1/webhooks/:id/secrets', 'listSecrets', 'viewer', 'how often each secret verified, and when last'],
  ['POST', '/api/v1/webhooks/:id/test', 'testWebhook', 'operator', 'what a signed request of Weir itself was answered'],
  ['GET', '/api/v1/agents', 'listAgents', 'viewer', 'agents, newest first'],
  ['POST', '/api/v1/agents', 'createAgent', 'operator', '201 and the agent with its credential, once'],
  ['GET', '/api/v1/agents/activity', 'listAgentActivity', 'viewer', 'when agents were last seen, and how far behind'],
  ['GET', '/api/v1/agents/:id', 'showAgent', 'viewer', 'one agent'],
  ['PATCH', '/api/v1/agents/:id', 'updateAgent', 'operator', 'the agent, with the given members changed'],
  ['DELETE', '/api/v1/agents/:id', 'revokeAgent', 'operator', '204; its credential and sessions end for good'],
  ['POST', '/api/v1/agents/:id/rotate', 'rotateAgent', 'operator', 'the agent with a new credential, once'],
  ['GET', '/api/v1/events', 'listEvents', 'viewer or agent', 'events by filters or text in their bodies, newest first'],
  ['GET', '/api/v1/events/:id', 'showEvent', 'viewer or agent', 'one event without its body'],
  ['GET', '/api/v1/events/:id/body', 'showEventBody', 'viewer or agent', 'the stored bytes, unchanged'],
  ['POST', '/api/v1/events/:id/replay', 'replayEvent', 'operator', '201, new deliveries of an event'],
  ['GET', '/api/v1/rejections', 'listRejections', 'viewer', 'refused signatures and why, newest first'],
  ['GET', '/api/v1/rejections/:id', 'showRejection', 'viewer', 'one of them, with headers and the start of its body'],
  ['GET', '/api/v1/rejections/:id/body', 'showRejectionBody', 'viewer', 'the refused bytes, unchanged'],
  ['POST', '/api/v1/rejections/:id/recheck', 'recheckRejection', 'operator', 'whether it verifies by now'],
  ['POST', '/api/v1/rejections/:id/accept', 'acceptRejection', 'operator', '201 and its event; 200 for a repeat'],
  ['GET', '/api/v1/counters', 'showCounters', 'viewer', 'the last seconds, counted over all processes of the machine'],
  ['GET', '/api/v1/status', 'showStatus', 'operator', 'versions, processes, database, settings, and the doctor'],
  ['GET', '/api/v1/stream', 'stream', 'viewer', 'server-sent events: counters each second, and new events'],
  ['GET', '/api/v1/deliveries', 'listDeliveries', 'viewer or agent', 'deliveries, newest first'],
  ['GET', '/api/v1/deliveries/counts', 'countDeliveries', 'viewer', 'how many are pending, leased and dead'],
  ['POST', '/api/v1/deliveries/replay', 'replayDeliveries', 'operator', 'how many of an agent are pending again'],
  ['GET', '/api/v1/deliveries/:id', 'showDelivery', 'viewer or agent', 'one delivery'],
  ['POST', '/api/v1/deliveries/:id/replay', 'replayDelivery', 'operator', 'the delivery, pending again'],
  ['GET', '/api/v1/tokens', 'listTokens', 'viewer', "one's own API tokens; an administrator, everybody's"],
  ['POST', '/api/v1/tokens', 'createToken', 'viewer', 'a new API token, shown this once'],
  ['GET', '/api/v1/tokens/:id', 'showToken', 'viewer', "one's own token; an administrator, anybody's"],
  ['DELETE', '/api/v1/tokens/:id', 'revokeToken', 'viewer', '204; the token ends everywhere, and those that it made'],
  ['GET', '/api/v1/audit', 'listAudit', 'administrator', 'who did what, newest first'],
  ['GET', '/api/v1/audit/export', 'exportAudit', 'administrator', 'the same as lines of JSON, 10,000 at most'],
  ['GET', '/api/v1/audit/verify', 'verifyAudit', 'administrator', 'whether the chain of the log holds, and how far'],
  ['GET', '/api/v1/users', 'listUsers', 'administrator', 'users by email'],
  ['POST', '/api/v1/users', 'createUser', 'administrator', 'a new user; a generated password is told this once'],
  ['GET', '/api/v1/users/:id', 'showUser', 'administrator', 'one user'],
  ['PATCH', '/api/v1/users/:id', 'updateUser', 'administrator', 'name, role, disabled or password of a user'],
  ['DELETE', '/api/v1/users/:id', 'deleteUser', 'administrator', '204; its sessions and tokens end'],
] as const satisfies readonly (readonly [Method, string, string, OperationAccess, string])[];

/** Pages for browsers. Changes are forms that lead back to a page. */
export const pageRoutes = [
  ['GET', '/sign-in', 'signIn', 'anyone', 'the sign-in form'],
  ['POST', '/sign-in', 'doSignIn', 'anyone', 'signs in'],
  ['POST', '/sign-out', 'signOut', 'viewer', 'signs out'],
  ['GET', '/oidc/start', 'oidcStart', 'anyone', 'hosted mode: to the sign-in of the identity provider'],
  ['GET', '/oidc/callback', 'oidcCallback', 'anyone', 'hosted mode: back from there, signed in'],
  ['GET', '/setup', 'setUp', 'anyone', 'the form of the first administrator; 404 once there is one'],
  ['POST', '/setup', 'doSetUp', 'anyone', 'makes the first administrator, and signs in'],
  ['GET', '/', 'overview', 'viewer', 'what happens now'],
  ['GET', '/account', 'account', 'viewer', 'who one is, and where one is signed in'],
  ['POST', '/account/password', 'changePassword', 'viewer', "changes one's password"],
  ['POST', '/account/sessions/:id/end', 'endSession', 'viewer', 'signs one browser out'],
  ['POST', '/account/sign-out-everywhere', 'signOutEverywhere', 'viewer', 'ends every session of oneself'],
  ['GET', '/users', 'userList', 'administrator', 'who may use Weir'],
  ['GET', '/users/new', 'newUser', 'administrator', 'the form of a new user'],
  ['POST', '/users/new', 'createUser', 'administrator', 'makes the user; shows a generated password this once'],
  ['GET', '/users/:id', 'showUser', 'administrator', 'one user'],
  ['POST', '/users/:id', 'updateUser', 'administrator', 'changes name and role'],
  ['POST', '/users/:id/password', 'resetPassword', 'administrator', 'sets a new password; shows a generated one once'],
  ['POST', '/users/:id/disable', 'disableUser', 'administrator', 'signs the user out, and keeps them out'],
  ['POST', '/users/:id/enable', 'enableUser', 'administrator', 'lets the user in again'],
  ['POST', '/users/:id/delete', 'deleteUser', 'administrator', 'deletes the user'],
  ['GET', '/tokens', 'tokenList', 'viewer', "one's own API tokens; an administrator, everybody's"],
  ['GET', '/tokens/new', 'newToken', 'viewer', 'the form of a new token'],
  ['POST', '/tokens/new', 'createToken', 'viewer', 'makes it, and shows it this once'],
  ['GET', '/tokens/:id', 'showToken', 'viewer', 'one token'],
  ['POST', '/tokens/:id/revoke', 'revokeToken', 'viewer', 'ends it'],
  ['GET', '/audit', 'auditList', 'administrator', 'who did what'],
  ['GET', '/audit/verify', 'verifyAudit', 'administrator', 'whether the audit log is whole'],
  ['GET', '/audit/:id', 'showAuditEntry', 'administrator', 'one entry, and what exactly it changed'],
  ['GET', '/webhooks', 'webhookList', 'viewer', 'addresses that take requests'],
  ['POST', '/webhooks/new', 'createWebhook', 'operator', 'makes one; shows its secret once'],
  ['GET', '/webhooks/new', 'newWebhook', 'operator', 'the form for a new one'],
  ['GET', '/webhooks/:id', 'showWebhook', 'viewer', 'one webhook'],
  ['POST', '/webhooks/:id/edit', 'updateWebhook', 'operator', 'changes it'],
  ['GET', '/webhooks/:id/edit', 'editWebhook', 'operator', 'the form to change it'],
  ['POST', '/webhooks/:id/switch', 'switchWebhook', 'operator', 'disables it, or enables it again'],
  ['POST', '/webhooks/:id/rotate', 'rotateWebhook', 'operator', 'gives it a new secret'],
  ['POST', '/webhooks/:id/test', 'testWebhook', 'operator', 'sends it a signed request'],
  ['POST', '/webhooks/:id/delete', 'deleteWebhook', 'operator', 'deletes it'],
  ['GET', '/events', 'eventList', 'viewer', 'what arrived, newest first, live'],
  ['GET', '/events/:id', 'showEvent', 'viewer', 'one event with its body'],
  ['POST', '/events/:id/replay', 'replayEvent', 'operator', 'sends it to its agents again'],
  ['GET', '/rejections', 'rejectionList', 'viewer', 'what was refused for its signature'],
  ['GET', '/rejections/:id', 'showRejection', 'viewer', 'why, and how to mend it'],
  ['POST', '/rejections/:id/recheck', 'recheckRejection', 'operator', 'checks it again'],
  ['POST', '/rejections/:id/accept', 'acceptRejection', 'operator', 'stores it as an event'],
  ['GET', '/agents', 'agentList', 'viewer', 'programs that fetch events'],
  ['POST', '/agents/new', 'createAgent', 'operator', 'makes one; shows its credential once'],
  ['GET', '/agents/new', 'newAgent', 'operator', 'the form for a new one'],
  ['GET', '/agents/:id', 'showAgent', 'viewer', 'one agent and its deliveries'],
  ['POST', '/agents/:id/edit', 'updateAgent', 'operator', 'changes it'],
  ['GET', '/agents/:id/edit', 'editAgent', 'operator', 'the form to change it'],
  ['POST', '/agents/:id/rotate', 'rotateAgent', 'operator', 'gives it a new credential'],
  ['POST', '/agents/:id/revoke', 'revokeAgent', 'operator', 'ends it for good'],
  ['POST', '/agents/:id/replay-dead', 'replayDeadLetters', 'operator', 'makes its dead letters pending again'],
  ['GET', '/status', 'status', 'operator', 'versions, database, what the doctor says, settings in force'],
  ['GET', '/deliveries', 'deliveryList', 'viewer', 'events on their way to agents'],
  ['GET', '/deliveries/:id', 'showDelivery', 'viewer', 'one delivery'],
  ['POST', '/deliveries/:id/replay', 'replayDelivery', 'operator', 'makes it pending again'],
] as const satisfies readonly (readonly [Method, string, string, 'anyone' | Role, string])[];

type OperationRow = (typeof operationRoutes)[number];
export type OperationName = OperationRow[2];
type Requester<Access> = Access extends 'anyone' ? null : Access extends 'viewer or agent' ? Reader : Person;
/** One operation for each row of operationRoutes. */
export type Operations = {
  // biome-ignore lint/suspicious/noExplicitAny: each operation has types of its own
  [Row in OperationRow as Row[2]]: Operation<Requester<Row[3]>, any, any>;
};

/** Statuses that senders and agents can get, by route. Their metrics series exist from the start. */
export function expectedAnswers(): { path: string; statuses: number[] }[] {
  return plainRoutes.flatMap(([, path, name]) => {
    const description = plainDescriptions[name];
    if (description === null) return [];
    const problemStatuses = description.problems.map((code) => problems[code].status);
    return [{ path, statuses: [...Object.keys(description.answers).map(Number), ...problemStatuses] }];
  });
}
