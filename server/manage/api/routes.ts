/**
 * Every route of Weir, one line each, with its access and the meaning of its response. The table of the guide is generated from it. A
 * plain route handles its requests itself; an operation is served by manage/api/serve.ts, which authenticates first.
 */

import type { Method } from '../../base/http/route.ts';
import type { Role } from '../../model/users.ts';
import type { Agent } from '../../store/queries/agents.ts';
import type { Person, Reader } from '../auth/person.ts';
import type { Operation } from './operation.ts';

/** `signature`: signature of the webhook. */
type PlainAccess = 'anyone' | 'signature' | 'viewer or agent';
/**
 * `anyone`, or the lowest role allowed. On mixed routes an agent is allowed too, and sees only its own data. `agent`: credential or
 * session of an agent; `agent credential`: checked by the operation itself.
 */
export type OperationAccess = Role | 'viewer or agent' | 'agent' | 'agent credential' | 'anyone';

type OperationRouteRow = readonly [Method, string, string, OperationAccess, string];

export const plainRoutes = [
  ['GET', '/healthz', 'live', 'anyone', '200 while the process is alive'],
  ['GET', '/readyz', 'ready', 'anyone', '200 if events can be stored; else 503 with the failing check'],
  ['POST', '/in/:webhook_id', 'ingest', 'signature', '202 once the event is committed; 200 for a duplicate'],
  ['GET', '/in/:webhook_id', 'handshake', 'anyone', "answers a sender's check of the URL; 405 for another request"],
  ['OPTIONS', '/in/:webhook_id', 'handshakeOptions', 'anyone', 'the same for CloudEvents'],
  ['POST', '/in/:webhook_id/batch', 'ingestBatch', 'signature', '202 once every line is committed as an event'],
  ['POST', '/mcp', 'mcp', 'viewer or agent', 'answers a message of the Model Context Protocol, see AI agents by MCP'],
  ['GET', '/assets/:name', 'asset', 'anyone', 'style sheets and scripts of the pages, cached permanently'],
  ['GET', '/client-RELEASE-HASH.tgz', 'clientPackage', 'anyone', 'the client package, cached permanently'],
  ['GET', '/client.tgz', 'currentClient', 'anyone', 'the client package of this release, the same bytes'],
] as const satisfies readonly (readonly [Method, string, string, PlainAccess, string])[];

/** Operations for agents. */
export const agentRoutes = [
  ['POST', '/api/v1/agent/session', 'agentSession', 'agent credential', 'creates a session for an agent credential'],
  ['GET', '/api/v1/agent/me', 'agentMe', 'agent', 'the agent itself'],
  [
    'POST',
    '/api/v1/agent/deliveries/claim',
    'claim',
    'agent',
    'claims deliveries; waits when no delivery can be claimed',
  ],
  ['POST', '/api/v1/agent/deliveries/ack', 'ack', 'agent', 'acknowledges deliveries; lists lost leases'],
  ['POST', '/api/v1/agent/deliveries/nack', 'nack', 'agent', 'returns deliveries for a later retry; lists lost leases'],
  ['POST', '/api/v1/agent/deliveries/extend', 'extend', 'agent', 'extends leases; lists lost leases'],
] as const satisfies readonly OperationRouteRow[];

/** Operations for users, for users or agents, and for anyone. */
export const userRoutes = [
  ['GET', '/api/v1/openapi.json', 'showOpenApi', 'anyone', 'this API as OpenAPI 3.1'],
  ['POST', '/api/v1/setup', 'setUp', 'anyone', 'creates the first administrator; 404 once one exists'],
  ['POST', '/api/v1/session', 'signIn', 'anyone', 'creates a session cookie for an email and a password'],
  ['DELETE', '/api/v1/session', 'signOut', 'viewer', 'ends the current session'],
  ['GET', '/api/v1/account', 'showAccount', 'viewer', 'the signed-in user'],
  ['GET', '/api/v1/account/sessions', 'listSessions', 'viewer', 'sessions of the signed-in user'],
  ['DELETE', '/api/v1/account/sessions', 'endSessions', 'viewer', 'ends all sessions of the signed-in user'],
  ['DELETE', '/api/v1/account/sessions/:id', 'endSession', 'viewer', 'ends one session of the signed-in user'],
  ['POST', '/api/v1/account/password', 'changePassword', 'viewer', 'changes the password; ends all other sessions'],
  ['GET', '/api/v1/webhooks', 'listWebhooks', 'viewer or agent', 'webhooks, newest first'],
  ['POST', '/api/v1/webhooks', 'createWebhook', 'operator', '201 with the webhook and a generated secret, once'],
  ['GET', '/api/v1/webhooks/activity', 'listWebhookActivity', 'viewer', 'last event and rejection of each webhook'],
  ['GET', '/api/v1/webhooks/usage', 'listWebhookUsage', 'viewer', 'events and bytes stored by each webhook'],
  ['GET', '/api/v1/webhooks/:id', 'showWebhook', 'viewer or agent', 'one webhook'],
  ['PATCH', '/api/v1/webhooks/:id', 'updateWebhook', 'operator', 'updates the given members of a webhook'],
  ['DELETE', '/api/v1/webhooks/:id', 'deleteWebhook', 'operator', '204; the events of the webhook are kept'],
  [
    'POST',
    '/api/v1/webhooks/:id/rotate-secret',
    'rotateSecret',
    'operator',
    'rotates the secret; a generated one is shown',
  ],
  ['GET', '/api/v1/webhooks/:id/secrets', 'listSecrets', 'viewer', 'number and time of verifications by each secret'],
  ['POST', '/api/v1/webhooks/:id/test', 'testWebhook', 'operator', 'sends a signed test request; its response'],
  [
    'POST',
    '/api/v1/webhooks/:id/move',
    'moveWebhook',
    'administrator',
    'stores new events of a webhook in another cell; older ones stay',
  ],
  ['GET', '/api/v1/cells', 'listCells', 'viewer', 'the servers that store events, home first'],
  ['POST', '/api/v1/cells', 'addCell', 'administrator', '201 with a cell: another Postgres server for events'],
  ['PATCH', '/api/v1/cells/:id', 'updateCell', 'administrator', 'changes name or connection string of a cell'],
  ['DELETE', '/api/v1/cells/:id', 'removeCell', 'administrator', '204; forgets a cell that is drained and empty'],
  [
    'POST',
    '/api/v1/cells/:id/drain',
    'drainCell',
    'administrator',
    'moves up to 100 webhooks of a cell to others; repeat while more is true',
  ],
  ['GET', '/api/v1/signature-schemes', 'listSchemes', 'anyone', 'the signature schemes of senders'],
  ['GET', '/api/v1/agents', 'listAgents', 'viewer', 'agents, newest first'],
  ['POST', '/api/v1/agents', 'createAgent', 'operator', '201 with the agent and its credential, once'],
  [
    'GET',
    '/api/v1/agents/activity',
    'listAgentActivity',
    'viewer',
    'last request and backlog of agents; without ids, of all active agents that are not temporary',
  ],
  ['GET', '/api/v1/agents/:id', 'showAgent', 'viewer', 'one agent'],
  ['PATCH', '/api/v1/agents/:id', 'updateAgent', 'operator', 'updates the given members of an agent'],
  [
    'DELETE',
    '/api/v1/agents/:id',
    'revokeAgent',
    'operator',
    '204; revokes the agent and its sessions; removes a temporary agent',
  ],
  [
    'PUT',
    '/api/v1/agents/:id/subscriptions/:webhook_id',
    'setSubscription',
    'operator',
    'subscribes an agent to a webhook, with this filter or none',
  ],
  ['POST', '/api/v1/filters/test', 'testFilter', 'operator', 'tries a filter on the newest events of a webhook'],
  [
    'POST',
    '/api/v1/agents/:id/undelivered',
    'settleUndelivered',
    'operator',
    'dismisses the unfinished deliveries of a revoked agent, or moves them to another agent',
  ],
  ['POST', '/api/v1/agents/:id/rotate', 'rotateAgent', 'operator', 'rotates the credential; shows the new one once'],
  ['GET', '/api/v1/events', 'listEvents', 'viewer or agent', 'events by query or body text, newest first'],
  ['GET', '/api/v1/events/count', 'countEvents', 'viewer', 'number of events by query, at most 1,000'],
  ['GET', '/api/v1/events/export', 'exportEvents', 'viewer', 'events by query as NDJSON or CSV, at most 100,000'],
  ['GET', '/api/v1/events/deliveries', 'countEventDeliveries', 'viewer', 'deliveries of each event by state'],
  ['GET', '/api/v1/events/:id', 'showEvent', 'viewer or agent', 'one event without its body'],
  ['GET', '/api/v1/events/:id/body', 'showEventBody', 'viewer or agent', 'the stored bytes, unchanged'],
  ['POST', '/api/v1/events/replay', 'replayEvents', 'operator', '202 with a job that replays events by query'],
  ['POST', '/api/v1/events/:id/replay', 'replayEvent', 'operator', '201 with new deliveries of an event'],
  ['GET', '/api/v1/jobs', 'listJobs', 'viewer', 'jobs, newest first'],
  ['GET', '/api/v1/jobs/:id', 'showJob', 'viewer', 'one job with its progress'],
  ['POST', '/api/v1/jobs/:id/cancel', 'cancelJob', 'operator', 'cancels an unfinished job'],
  ['GET', '/api/v1/rejections', 'listRejections', 'viewer', 'rejected signatures with the reason, newest first'],
  ['GET', '/api/v1/rejections/groups', 'listRejectionGroups', 'viewer', 'rejections by webhook, reason and header'],
  ['POST', '/api/v1/rejections/accept', 'acceptRejections', 'operator', 'accepts those of a webhook that verify now'],
  ['GET', '/api/v1/rejections/:id', 'showRejection', 'viewer', 'one rejection with headers and start of the body'],
  ['GET', '/api/v1/rejections/:id/body', 'showRejectionBody', 'viewer', 'the rejected bytes, unchanged'],
  ['POST', '/api/v1/rejections/:id/recheck', 'recheckRejection', 'operator', 'verifies the request again'],
  [
    'POST',
    '/api/v1/rejections/:id/fix',
    'fixRejection',
    'operator',
    'changes its webhook; verifies similar ones again',
  ],
  ['POST', '/api/v1/rejections/:id/accept', 'acceptRejection', 'operator', '201 with the event; 200 for a duplicate'],
  ['GET', '/api/v1/conditions', 'listConditions', 'viewer', 'what needs a person now, with what it concerns'],
  ['POST', '/api/v1/conditions/:id/snooze', 'snoozeCondition', 'operator', 'snoozes a condition, or ends its snooze'],
  ['GET', '/api/v1/problems', 'listProblems', 'viewer', 'deprecated: the same as /api/v1/conditions'],
  ['GET', '/api/v1/alerts', 'listAlerts', 'viewer', 'alerts, active and ended, newest first'],
  ['POST', '/api/v1/alerts/test', 'testAlert', 'operator', 'sends a test alert to ALERT_URL; its result'],
  ['GET', '/api/v1/history', 'showHistory', 'viewer', 'requests over time, by minute, hour or day'],
  [
    'GET',
    '/api/v1/history/webhooks',
    'listWebhookHistory',
    'viewer',
    'the last 24 hours of each webhook, busiest first',
  ],
  ['GET', '/api/v1/outages', 'listOutages', 'viewer', 'outages of the database that have ended, newest first'],
  ['GET', '/api/v1/counters', 'showCounters', 'viewer', 'counters of the last seconds of this machine'],
  ['GET', '/api/v1/status', 'showStatus', 'operator', 'versions, processes, database, settings, doctor findings'],
  ['GET', '/api/v1/stream', 'stream', 'viewer', 'server-sent events: counters every second, and new events'],
  ['GET', '/api/v1/deliveries', 'listDeliveries', 'viewer or agent', 'deliveries, newest first'],
  ['GET', '/api/v1/deliveries/counts', 'countDeliveries', 'viewer', 'numbers of pending, leased and dead deliveries'],
  ['GET', '/api/v1/deliveries/dead', 'groupDeadLetters', 'viewer', 'dead letters by reason'],
  ['POST', '/api/v1/deliveries/replay', 'replayDeliveries', 'operator', 'replays finished deliveries in a state'],
  ['POST', '/api/v1/deliveries/dismiss', 'dismissDeliveries', 'operator', 'dismisses dead deliveries'],
  ['POST', '/api/v1/deliveries/undo', 'undoDeliveries', 'operator', 'undoes a replay or dismissal of many deliveries'],
  ['GET', '/api/v1/deliveries/:id', 'showDelivery', 'viewer or agent', 'one delivery'],
  ['GET', '/api/v1/deliveries/:id/attempts', 'listAttempts', 'viewer or agent', 'attempts and replays of a delivery'],
  ['POST', '/api/v1/deliveries/:id/replay', 'replayDelivery', 'operator', 'replays a finished delivery'],
  ['POST', '/api/v1/deliveries/:id/dismiss', 'dismissDelivery', 'operator', 'dismisses a dead delivery'],
  ['GET', '/api/v1/tokens', 'listTokens', 'viewer', 'API tokens of the user; administrators: of all users'],
  ['POST', '/api/v1/tokens', 'createToken', 'viewer', '201 with a new API token, shown only here'],
  ['GET', '/api/v1/tokens/:id', 'showToken', 'viewer', 'one API token of the user; administrators: of any user'],
  ['DELETE', '/api/v1/tokens/:id', 'revokeToken', 'viewer', '204; revokes the token and the tokens that it created'],
  ['GET', '/api/v1/audit', 'listAudit', 'administrator', 'audit log, newest first'],
  ['GET', '/api/v1/audit/export', 'exportAudit', 'administrator', 'audit log as JSON lines, at most 10,000 entries'],
  ['GET', '/api/v1/audit/verify', 'verifyAudit', 'administrator', 'verifies the hash chain of the audit log'],
  ['GET', '/api/v1/users', 'listUsers', 'administrator', 'users, ordered by email'],
  ['POST', '/api/v1/users', 'createUser', 'administrator', '201 with the user and a generated password, once'],
  ['GET', '/api/v1/users/:id', 'showUser', 'administrator', 'one user'],
  ['PATCH', '/api/v1/users/:id', 'updateUser', 'administrator', 'updates name, role, disabled or password of a user'],
  ['DELETE', '/api/v1/users/:id', 'deleteUser', 'administrator', '204; the sessions and tokens of the user end'],
] as const satisfies readonly OperationRouteRow[];

export const operationRoutes = [...agentRoutes, ...userRoutes] as const;

/** Pages for browsers. Changes are forms that lead back to a page. */
export const pageRoutes = [
  ['GET', '/sign-in', 'signIn', 'anyone', 'the sign-in form'],
  ['POST', '/sign-in', 'doSignIn', 'anyone', 'signs in'],
  ['POST', '/sign-out', 'signOut', 'viewer', 'signs out'],
  ['GET', '/oidc/start', 'oidcStart', 'anyone', 'hosted mode: redirects to the identity provider'],
  ['GET', '/oidc/callback', 'oidcCallback', 'anyone', 'hosted mode: completes the sign-in'],
  ['GET', '/setup', 'setUp', 'anyone', 'the form of the first administrator; 404 once an administrator exists'],
  ['POST', '/setup', 'doSetUp', 'anyone', 'creates the first administrator and signs in'],
  ['GET', '/docs', 'docs', 'anyone', 'the guides of this release, and a search in them (`q`)'],
  ['GET', '/docs/:guide', 'guide', 'anyone', 'one guide'],
  ['GET', '/', 'overview', 'viewer', 'overview: live counters and conditions'],
  ['GET', '/start', 'start', 'operator', 'the first steps of a new installation, until they are done'],
  ['GET', '/account', 'account', 'viewer', 'name, role and sessions of the signed-in user'],
  ['POST', '/account/password', 'changePassword', 'viewer', 'changes the password'],
  ['POST', '/account/appearance', 'setAppearance', 'viewer', 'sets theme and density of this browser'],
  ['POST', '/account/sessions/:id/end', 'endSession', 'viewer', 'ends one session'],
  ['POST', '/account/sign-out-everywhere', 'signOutEverywhere', 'viewer', 'ends all sessions of the signed-in user'],
  ['GET', '/users', 'userList', 'administrator', 'users'],
  ['GET', '/users/new', 'newUser', 'administrator', 'the form for a new user'],
  ['POST', '/users/new', 'createUser', 'administrator', 'creates the user; shows a generated password once'],
  ['GET', '/users/:id', 'showUser', 'administrator', 'one user'],
  ['POST', '/users/:id', 'updateUser', 'administrator', 'changes name and role'],
  ['POST', '/users/:id/password', 'resetPassword', 'administrator', 'sets a new password; shows a generated one once'],
  ['POST', '/users/:id/disable', 'disableUser', 'administrator', 'disables the user and ends their sessions'],
  ['POST', '/users/:id/enable', 'enableUser', 'administrator', 'enables the user'],
  ['POST', '/users/:id/delete', 'deleteUser', 'administrator', 'deletes the user'],
  ['GET', '/tokens', 'tokenList', 'viewer', 'API tokens of the user; administrators: of all users'],
  ['GET', '/tokens/new', 'newToken', 'viewer', 'the form for a new token'],
  ['POST', '/tokens/new', 'createToken', 'viewer', 'creates the token and shows it once'],
  ['GET', '/tokens/:id', 'showToken', 'viewer', 'one token'],
  ['POST', '/tokens/:id/revoke', 'revokeToken', 'viewer', 'revokes the token'],
  ['GET', '/audit', 'auditList', 'administrator', 'audit log'],
  ['GET', '/audit/verify', 'verifyAudit', 'administrator', 'verifies the audit log'],
  ['GET', '/audit/:id', 'showAuditEntry', 'administrator', 'one entry with the changed members'],
  ['GET', '/webhooks', 'webhookList', 'viewer', 'webhooks'],
  ['POST', '/webhooks/new', 'createWebhook', 'operator', 'creates a webhook; shows its secret once'],
  ['GET', '/webhooks/new', 'newWebhook', 'operator', 'the form for a new webhook'],
  ['GET', '/webhooks/:id', 'showWebhook', 'viewer', 'one webhook and its newest events'],
  ['GET', '/webhooks/:id/rejections', 'webhookRejections', 'viewer', 'newest rejections of the webhook'],
  ['GET', '/webhooks/:id/settings', 'webhookSettings', 'viewer', 'settings of the webhook; disables and deletes it'],
  [
    'GET',
    '/webhooks/:id/secret',
    'webhookSecret',
    'viewer',
    'secret of the webhook, and what its sender needs; rotates the secret',
  ],
  ['POST', '/webhooks/:id/edit', 'updateWebhook', 'operator', 'updates the webhook'],
  ['GET', '/webhooks/:id/edit', 'editWebhook', 'operator', 'the form to edit the webhook'],
  ['POST', '/webhooks/:id/switch', 'switchWebhook', 'operator', 'disables or enables the webhook'],
  ['POST', '/webhooks/:id/rotate', 'rotateWebhook', 'operator', 'rotates the secret'],
  ['POST', '/webhooks/:id/test', 'testWebhook', 'operator', 'sends a signed test request'],
  ['POST', '/webhooks/:id/delete', 'deleteWebhook', 'operator', 'deletes the webhook'],
  ['GET', '/search', 'search', 'viewer', 'webhooks, agents, events and deliveries by name, type or id'],
  ['GET', '/events', 'eventList', 'viewer', 'events, newest first, live'],
  ['GET', '/events/replay', 'replayForm', 'operator', 'asks before all events that match are replayed'],
  ['POST', '/events/replay', 'replayEvents', 'operator', 'creates a job that replays them'],
  ['GET', '/jobs', 'jobList', 'viewer', 'jobs: replays of many events'],
  ['GET', '/jobs/:id', 'showJob', 'viewer', 'one job with its progress'],
  ['POST', '/jobs/:id/cancel', 'cancelJob', 'operator', 'cancels the job'],
  ['GET', '/events/:id', 'showEvent', 'viewer', 'one event with its body'],
  ['POST', '/events/:id/replay', 'replayEvent', 'operator', 'replays the event'],
  ['GET', '/events/:id/edit', 'editEvent', 'operator', 'the form to send the event again with changes'],
  ['POST', '/events/:id/send', 'sendEvent', 'operator', 'sends a signed request, which becomes a new event'],
  ['GET', '/rejections', 'rejectionList', 'viewer', 'rejected signatures'],
  ['GET', '/rejections/:id', 'showRejection', 'viewer', 'one rejection: its reason and how to fix it'],
  ['POST', '/rejections/accept', 'acceptRejections', 'operator', 'accepts the rejections of a webhook that verify now'],
  ['POST', '/rejections/:id/fix', 'fixRejection', 'operator', 'changes the webhook so that the request verifies'],
  ['POST', '/rejections/:id/recheck', 'recheckRejection', 'operator', 'verifies the request again'],
  ['POST', '/rejections/:id/accept', 'acceptRejection', 'operator', 'stores the request as an event'],
  ['GET', '/agents', 'agentList', 'viewer', 'agents'],
  ['POST', '/agents/new', 'createAgent', 'operator', 'creates an agent; shows its credential once'],
  ['GET', '/agents/new', 'newAgent', 'operator', 'the form for a new agent'],
  ['GET', '/agents/:id', 'showAgent', 'viewer', 'one agent and its deliveries'],
  ['POST', '/agents/:id/edit', 'updateAgent', 'operator', 'updates the agent'],
  ['GET', '/agents/:id/edit', 'editAgent', 'operator', 'the form to edit the agent'],
  ['POST', '/agents/:id/filter', 'updateFilter', 'operator', 'sets or tries the filter of a subscription'],
  ['GET', '/agents/:id/filter', 'editFilter', 'operator', 'the form for the filter of a subscription'],
  ['POST', '/agents/:id/rotate', 'rotateAgent', 'operator', 'rotates the credential'],
  ['POST', '/agents/:id/revoke', 'revokeAgent', 'operator', 'revokes the agent'],
  ['POST', '/agents/:id/undelivered', 'settleUndelivered', 'operator', 'dismisses or moves what a revoked agent left'],
  ['POST', '/agents/:id/replay-dead', 'replayDeadOfAgent', 'operator', 'replays the dead letters of the agent'],
  ['GET', '/status', 'status', 'operator', 'versions, database, findings of weir doctor, settings'],
  ['POST', '/conditions/:id/snooze', 'snoozeCondition', 'operator', 'snoozes a condition, or ends its snooze'],
  ['POST', '/status/alerts/test', 'testAlert', 'operator', 'sends a test alert'],
  ['GET', '/deliveries', 'deliveryList', 'viewer', 'deliveries'],
  ['POST', '/deliveries/replay', 'replayDeliveries', 'operator', 'replays dead, dismissed or filtered deliveries'],
  ['POST', '/deliveries/dismiss', 'dismissDeadLetters', 'operator', 'dismisses dead letters, of one reason or all'],
  ['POST', '/deliveries/undo', 'undoDeliveries', 'operator', 'undoes a replay or dismissal of many deliveries'],
  ['GET', '/deliveries/:id', 'showDelivery', 'viewer', 'one delivery with its attempts'],
  ['POST', '/deliveries/:id/replay', 'replayDelivery', 'operator', 'replays the delivery'],
  ['POST', '/deliveries/:id/dismiss', 'dismissDelivery', 'operator', 'dismisses the dead delivery'],
] as const satisfies readonly (readonly [Method, string, string, 'anyone' | Role, string])[];

type OperationRow = (typeof operationRoutes)[number];
export type OperationName = OperationRow[2];
type WhoOf<Access> = Access extends 'anyone' | 'agent credential'
  ? null
  : Access extends 'viewer or agent'
    ? Reader
    : Access extends 'agent'
      ? Agent
      : Person;
/** One operation for each row of operationRoutes, for those whom the row admits. */
export type OperationTable = { [Row in OperationRow as Row[2]]: Operation<WhoOf<Row[3]>> };
