/**
 * Every route of Weir, one line each, with its access and the meaning of its response. The table of the guide is generated from it. A
 * plain route handles its requests itself; an operation is served by manage/api/serve.ts, which authenticates first.
 */
import type { Method } from '../../base/http/route.ts';
import type { Role } from '../../model/users.ts';
import type { ActiveAgent } from '../../store/queries/agents/active-agents.ts';
import type { Person, Reader } from '../auth/person.ts';
import type { Operation } from './operation.ts';

/** `signature`: the request is signed by the scheme of its webhook. */
type PlainAccess = 'anyone' | 'signature' | 'viewer or agent';
/**
 * `anyone`, or the lowest role allowed. On mixed routes an agent is allowed too, and sees only its own data. `agent`: credential or
 * session of an agent; `agent credential`: checked by the operation itself.
 */
export type OperationAccess = Role | 'viewer or agent' | 'agent' | 'agent credential' | 'anyone';

type OperationRouteRow = readonly [Method, string, string, OperationAccess, string];

/** Rows of the API: their paths are relative to /api/v1. */
function ofApi<const Rows extends readonly OperationRouteRow[]>(rows: Rows) {
  return rows.map(([method, path, ...more]) => [method, `/api/v1${path}`, ...more]) as {
    [Row in keyof Rows]: readonly [Rows[Row][0], string, Rows[Row][2], Rows[Row][3], string];
  };
}

export const plainRoutes = [
  ['GET', '/healthz', 'live', 'anyone', '200 while the process is alive'],
  ['GET', '/readyz', 'ready', 'anyone', '200 if events can be stored; else 503 with the failing check'],
  ['POST', '/in/:webhook_id', 'ingest', 'signature', '202 once the event is committed; 200 for a duplicate'],
  ['GET', '/in/:webhook_id', 'handshake', 'anyone', "answers a sender's check of the URL; 200 for HEAD, else 405"],
  ['OPTIONS', '/in/:webhook_id', 'handshakeOptions', 'anyone', 'the same for CloudEvents'],
  ['POST', '/in/:webhook_id/batch', 'ingestBatch', 'signature', '202 once every line is committed as an event'],
  ['POST', '/mcp', 'mcp', 'viewer or agent', 'answers a message of the Model Context Protocol, see AI agents by MCP'],
  ['GET', '/assets/:name', 'asset', 'anyone', 'style sheets and scripts of the pages, cached permanently'],
  ['GET', '/client-RELEASE-HASH.tgz', 'clientPackage', 'anyone', 'the client package, cached permanently'],
  ['GET', '/client.tgz', 'currentClient', 'anyone', 'the client package of this release, the same bytes'],
  ['GET', '/clients/weir.py', 'pythonClient', 'anyone', 'the client for Python: one file, without packages'],
] as const satisfies readonly (readonly [Method, string, string, PlainAccess, string])[];

/** With OAUTH_ENABLED. */
export const oauthRoutes = [
  ['GET', '/.well-known/oauth-protected-resource', 'oauthResource', 'anyone', 'OAuth: metadata of /mcp (RFC 9728)'],
  ['GET', '/.well-known/oauth-protected-resource/mcp', 'oauthResource', 'anyone', 'the same'],
  ['GET', '/.well-known/oauth-authorization-server', 'oauthServer', 'anyone', 'OAuth: server metadata (RFC 8414)'],
  ['POST', '/oauth/register', 'oauthRegister', 'anyone', 'OAuth: 201 with a client id (RFC 7591)'],
  ['POST', '/oauth/token', 'oauthToken', 'anyone', 'OAuth: tokens for a code or a refresh token'],
  ['POST', '/oauth/revoke', 'oauthRevoke', 'anyone', 'OAuth: 200; ends the access of a token (RFC 7009)'],
] as const satisfies readonly (readonly [Method, string, string, PlainAccess, string])[];

/** Operations for agents. */
export const agentRoutes = ofApi([
  ['POST', '/agent/session', 'agentSession', 'agent credential', 'creates a session for an agent credential'],
  ['GET', '/agent/me', 'agentMe', 'agent', 'the agent itself'],
  ['POST', '/agent/deliveries/claim', 'claim', 'agent', 'claims deliveries; waits when no delivery can be claimed'],
  ['POST', '/agent/deliveries/ack', 'ack', 'agent', 'acknowledges deliveries; lists lost leases'],
  ['POST', '/agent/deliveries/nack', 'nack', 'agent', 'returns deliveries for a later retry; lists lost leases'],
  ['POST', '/agent/deliveries/extend', 'extend', 'agent', 'extends leases; lists lost leases'],
]);

/** Operations for users, for users or agents, and for anyone. */
export const userRoutes = ofApi([
  ['GET', '/openapi.json', 'showOpenApi', 'anyone', 'this API as OpenAPI 3.1'],
  ['GET', '/configuration/schema.json', 'showConfigurationSchema', 'anyone', 'JSON Schema of the file of `weir apply`'],
  ['POST', '/setup', 'setUp', 'anyone', 'creates the first administrator; 404 once one exists'],
  ['POST', '/invitation', 'acceptInvitation', 'anyone', 'sets the password of an invited user and signs in'],
  ['POST', '/session', 'signIn', 'anyone', 'creates a session cookie for an email and a password'],
  ['DELETE', '/session', 'signOut', 'viewer', 'ends the current session'],
  ['GET', '/account', 'showAccount', 'viewer', 'the signed-in user'],
  ['GET', '/account/sessions', 'listSessions', 'viewer', 'sessions of the signed-in user'],
  ['DELETE', '/account/sessions', 'endSessions', 'viewer', 'ends all sessions of the signed-in user'],
  ['DELETE', '/account/sessions/:id', 'endSession', 'viewer', 'ends one session of the signed-in user'],
  ['POST', '/account/password', 'changePassword', 'viewer', 'changes the password; ends all other sessions'],
  ['GET', '/webhooks', 'listWebhooks', 'viewer or agent', 'webhooks, newest first'],
  ['POST', '/webhooks', 'createWebhook', 'operator', '201 with the webhook and a generated secret, once'],
  ['GET', '/webhooks/activity', 'listWebhookActivity', 'viewer', 'last event and rejection of each webhook'],
  ['GET', '/webhooks/usage', 'listWebhookUsage', 'viewer', 'events and bytes stored by each webhook'],
  ['GET', '/webhooks/:id', 'showWebhook', 'viewer or agent', 'one webhook'],
  ['PATCH', '/webhooks/:id', 'updateWebhook', 'operator', 'updates the given members of a webhook'],
  ['DELETE', '/webhooks/:id', 'deleteWebhook', 'operator', '204; the events of the webhook are kept'],
  ['POST', '/webhooks/:id/rotate-secret', 'rotateSecret', 'operator', 'rotates the secret; a generated one is shown'],
  ['GET', '/webhooks/:id/event-types', 'listEventTypes', 'viewer', 'types of its events of 7 days, with numbers'],
  ['GET', '/webhooks/:id/requests', 'listRequests', 'viewer', 'accepted, duplicate and refused requests, with counts'],
  ['DELETE', '/webhooks/:id/secrets/previous', 'endPreviousSecret', 'operator', '204; ends the overlap of a rotation'],
  ['GET', '/webhooks/:id/secrets', 'listSecrets', 'viewer', 'number and time of verifications by each secret'],
  ['POST', '/webhooks/:id/test', 'testWebhook', 'operator', 'sends a signed test request; its response'],
  ['POST', '/webhooks/:id/move', 'moveWebhook', 'administrator', 'new events go to another cell; older ones stay'],
  ['GET', '/cells', 'listCells', 'viewer', 'the servers that store events, home first'],
  ['POST', '/cells', 'addCell', 'administrator', '201 with a cell: another Postgres server for events'],
  ['PATCH', '/cells/:id', 'updateCell', 'administrator', 'changes name or connection string of a cell'],
  ['DELETE', '/cells/:id', 'removeCell', 'administrator', '204; forgets a cell that is drained and empty'],
  ['POST', '/cells/:id/drain', 'drainCell', 'administrator', 'moves up to 100 of its webhooks; repeat while more'],
  ['GET', '/signature-schemes', 'listSchemes', 'anyone', 'the signature schemes of senders'],
  ['GET', '/agents', 'listAgents', 'viewer', 'agents, newest first'],
  ['POST', '/agents', 'createAgent', 'operator', '201 with the agent and its credential, once'],
  ['GET', '/agents/activity', 'listAgentActivity', 'viewer', 'last request and backlog of agents that are to last'],
  ['GET', '/agents/:id', 'showAgent', 'viewer', 'one agent'],
  ['GET', '/agents/:id/webhooks', 'listAgentWebhooks', 'viewer', 'webhooks of an agent with their filters, by id'],
  ['PATCH', '/agents/:id', 'updateAgent', 'operator', 'updates the given members of an agent'],
  ['DELETE', '/agents/:id', 'revokeAgent', 'operator', '204; revokes agent and sessions; removes a temporary agent'],
  ['PUT', '/agents/:id/subscriptions/:webhook_id', 'setSubscription', 'operator', 'subscribes an agent to a webhook'],
  ['DELETE', '/agents/:id/subscriptions/:webhook_id', 'endSubscription', 'operator', 'ends a subscription'],
  ['GET', '/agents/:id/backlog', 'showBacklog', 'viewer', 'what waits for the agent, and when it will have caught up'],
  ['POST', '/filters/test', 'testFilter', 'operator', 'tries a filter on the newest events of a webhook'],
  ['POST', '/agents/:id/undelivered', 'settleUndelivered', 'operator', 'dismisses or moves what a revoked agent left'],
  ['POST', '/agents/:id/rotate', 'rotateAgent', 'operator', 'rotates the credential; shows the new one once'],
  ['GET', '/events', 'listEvents', 'viewer or agent', 'events by query or body text, newest first'],
  ['GET', '/events/count', 'countEvents', 'viewer', 'number of events by query, at most 1,000'],
  ['GET', '/events/export', 'exportEvents', 'viewer', 'events by query as NDJSON or CSV, at most 100,000'],
  ['GET', '/events/deliveries', 'countEventDeliveries', 'viewer', 'deliveries of each event by state'],
  ['GET', '/events/:id', 'showEvent', 'viewer or agent', 'one event without its body'],
  ['GET', '/events/:id/body', 'showEventBody', 'viewer or agent', 'the stored bytes, unchanged'],
  ['POST', '/events/replay', 'replayEvents', 'operator', '202 with a job that replays events by query'],
  ['POST', '/events/:id/replay', 'replayEvent', 'operator', '201 with new deliveries of an event'],
  ['GET', '/jobs', 'listJobs', 'viewer', 'jobs, newest first'],
  ['GET', '/jobs/:id', 'showJob', 'viewer', 'one job with its progress'],
  ['POST', '/jobs/:id/cancel', 'cancelJob', 'operator', 'cancels an unfinished job'],
  ['GET', '/rejections', 'listRejections', 'viewer', 'rejected signatures with the reason, newest first'],
  ['GET', '/rejections/groups', 'listRejectionGroups', 'viewer', 'rejections by webhook, reason and header'],
  ['POST', '/rejections/accept', 'acceptRejections', 'operator', 'accepts those of a webhook that verify now'],
  ['GET', '/rejections/:id', 'showRejection', 'viewer', 'one rejection with headers and start of the body'],
  ['GET', '/rejections/:id/body', 'showRejectionBody', 'viewer', 'the rejected bytes, unchanged'],
  ['POST', '/rejections/:id/recheck', 'recheckRejection', 'operator', 'verifies the request again'],
  ['POST', '/rejections/:id/fix', 'fixRejection', 'operator', 'changes its webhook; verifies similar ones again'],
  ['POST', '/rejections/:id/accept', 'acceptRejection', 'operator', '201 with the event; 200 for a duplicate'],
  ['GET', '/issues', 'listIssues', 'viewer', 'what needs a person, now and before, newest first'],
  ['GET', '/issues/:id', 'showIssue', 'viewer', 'one issue'],
  ['PATCH', '/issues/:id', 'updateIssue', 'operator', 'assigns an issue, notes something on it, or snoozes it'],
  ['GET', '/alerts', 'listAlerts', 'viewer', 'alerts, active and ended, newest first'],
  ['POST', '/alerts/test', 'testAlert', 'operator', 'sends a test alert to ALERT_URL; its result'],
  ['GET', '/history', 'showHistory', 'viewer', 'requests over time, by minute, hour or day'],
  ['GET', '/history/webhooks', 'listWebhookHistory', 'viewer', 'the last 24 hours of each webhook, busiest first'],
  ['GET', '/history/latency', 'listLatency', 'viewer', 'how long events take, by webhook and agent, slowest first'],
  ['GET', '/outages', 'listOutages', 'viewer', 'outages of the database that have ended, newest first'],
  ['GET', '/counters', 'showCounters', 'viewer', 'counters of the last seconds of this machine'],
  ['GET', '/status', 'showStatus', 'operator', 'versions, processes, database, settings, doctor findings'],
  ['GET', '/stream', 'stream', 'viewer', 'server-sent events: counters every second, and new events'],
  ['GET', '/deliveries', 'listDeliveries', 'viewer or agent', 'deliveries, newest first'],
  ['GET', '/deliveries/counts', 'countDeliveries', 'viewer', 'numbers of pending, leased and dead deliveries'],
  ['GET', '/deliveries/dead', 'groupDeadLetters', 'viewer', 'dead letters by reason'],
  ['POST', '/deliveries/replay', 'replayDeliveries', 'operator', 'replays finished deliveries in a state'],
  ['POST', '/deliveries/dismiss', 'dismissDeliveries', 'operator', 'dismisses dead deliveries'],
  ['POST', '/deliveries/undo', 'undoDeliveries', 'operator', 'undoes a replay or dismissal of many deliveries'],
  ['GET', '/deliveries/:id', 'showDelivery', 'viewer or agent', 'one delivery'],
  ['GET', '/deliveries/:id/attempts', 'listAttempts', 'viewer or agent', 'attempts and replays of a delivery'],
  ['POST', '/deliveries/:id/replay', 'replayDelivery', 'operator', 'replays a finished delivery'],
  ['POST', '/deliveries/:id/dismiss', 'dismissDelivery', 'operator', 'dismisses a dead delivery'],
  ['GET', '/tokens', 'listTokens', 'viewer', 'API tokens of the user; administrators: of all users'],
  ['POST', '/tokens', 'createToken', 'viewer', '201 with a new API token, shown only here'],
  ['GET', '/tokens/:id', 'showToken', 'viewer', 'one API token of the user; administrators: of any user'],
  ['DELETE', '/tokens/:id', 'revokeToken', 'viewer', '204; revokes the token and the tokens that it created'],
  ['GET', '/audit', 'listAudit', 'administrator', 'audit log, newest first'],
  ['GET', '/audit/export', 'exportAudit', 'administrator', 'audit log as JSON lines, at most 10,000 entries'],
  ['GET', '/audit/verify', 'verifyAudit', 'administrator', 'verifies the hash chain of the audit log'],
  ['GET', '/users', 'listUsers', 'administrator', 'users, ordered by email'],
  ['POST', '/users', 'createUser', 'administrator', '201 with the user, and once a password or an invitation link'],
  ['GET', '/users/:id', 'showUser', 'administrator', 'one user'],
  ['PATCH', '/users/:id', 'updateUser', 'administrator', 'updates name, role, disabled or password of a user'],
  ['DELETE', '/users/:id', 'deleteUser', 'administrator', '204; the sessions and tokens of the user end'],
  ['POST', '/users/:id/invitation', 'inviteUser', 'administrator', '201 with a new invitation link, once'],
  ['DELETE', '/users/:id/invitation', 'revokeInvitation', 'administrator', '204; the invitation link ends'],
]);

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
  ['GET', '/invitation', 'invitation', 'anyone', 'the form in which an invited user chooses a password'],
  ['POST', '/invitation', 'acceptInvitation', 'anyone', 'sets the password and signs in'],
  ['GET', '/docs', 'docs', 'anyone', 'the guides of this release, and a search in them (`q`)'],
  ['GET', '/docs/:guide', 'guide', 'anyone', 'one guide'],
  ['GET', '/', 'overview', 'viewer', 'overview: issues, requests, and the first steps of a new installation'],
  ['GET', '/issues', 'issueList', 'viewer', 'what needs a person: open, snoozed and resolved issues'],
  ['POST', '/issues/:id', 'updateIssue', 'operator', 'assigns an issue, notes something on it, or snoozes it'],
  ['GET', '/account', 'account', 'viewer', 'name, role and sessions of the signed-in user'],
  ['POST', '/account/password', 'changePassword', 'viewer', 'changes the password'],
  ['POST', '/account/appearance', 'setAppearance', 'viewer', 'sets theme and density of this browser'],
  ['POST', '/account/sessions/:id/end', 'endSession', 'viewer', 'ends one session'],
  ['POST', '/account/sign-out-everywhere', 'signOutEverywhere', 'viewer', 'ends all sessions of the signed-in user'],
  ['GET', '/users', 'userList', 'administrator', 'users'],
  ['GET', '/users/new', 'newUser', 'administrator', 'the form for a new user'],
  ['POST', '/users/new', 'createUser', 'administrator', 'creates the user; shows an invitation link once'],
  ['GET', '/users/:id', 'showUser', 'administrator', 'one user'],
  ['POST', '/users/:id', 'updateUser', 'administrator', 'changes name and role'],
  ['POST', '/users/:id/password', 'resetPassword', 'administrator', 'sets a new password; shows a generated one once'],
  ['POST', '/users/:id/invitation', 'inviteUser', 'administrator', 'shows a new invitation link once'],
  ['POST', '/users/:id/invitation/revoke', 'revokeInvitation', 'administrator', 'revokes the invitation link'],
  ['POST', '/users/:id/disable', 'disableUser', 'administrator', 'disables the user and ends their sessions'],
  ['POST', '/users/:id/enable', 'enableUser', 'administrator', 'enables the user'],
  ['POST', '/users/:id/delete', 'deleteUser', 'administrator', 'deletes the user'],
  ['GET', '/account/tokens', 'tokenList', 'viewer', 'API tokens of the user; administrators: of all users'],
  ['GET', '/account/tokens/new', 'newToken', 'viewer', 'the form for a new token'],
  ['POST', '/account/tokens/new', 'createToken', 'viewer', 'creates the token and shows it once'],
  ['GET', '/account/tokens/:id', 'showToken', 'viewer', 'one token'],
  ['POST', '/account/tokens/:id/revoke', 'revokeToken', 'viewer', 'revokes the token'],
  ['GET', '/tokens', 'tokens', 'viewer', 'redirects to /account/tokens'],
  ['GET', '/audit', 'auditList', 'administrator', 'audit log'],
  ['GET', '/audit/verify', 'verifyAudit', 'administrator', 'verifies the audit log'],
  ['GET', '/audit/:id', 'showAuditEntry', 'administrator', 'one entry with the changed members'],
  ['GET', '/webhooks', 'webhookList', 'viewer', 'webhooks'],
  ['POST', '/webhooks/new', 'createWebhook', 'operator', 'creates a webhook; shows its secret once'],
  ['GET', '/webhooks/new', 'newWebhook', 'operator', 'the form for a new webhook'],
  ['GET', '/webhooks/:id', 'showWebhook', 'viewer', 'one webhook and its newest events'],
  ['GET', '/webhooks/:id/rejections', 'webhookRejections', 'viewer', 'newest rejections of the webhook'],
  ['GET', '/webhooks/:id/settings', 'webhookSettings', 'viewer', 'settings of the webhook; disables and deletes it'],
  ['GET', '/webhooks/:id/secret', 'webhookSecret', 'viewer', 'secret of the webhook, and what its sender needs'],
  ['POST', '/webhooks/:id/edit', 'updateWebhook', 'operator', 'updates the webhook'],
  ['GET', '/webhooks/:id/edit', 'editWebhook', 'operator', 'the form to edit the webhook'],
  ['POST', '/webhooks/:id/switch', 'switchWebhook', 'operator', 'disables or enables the webhook'],
  ['POST', '/webhooks/:id/rotate', 'rotateWebhook', 'operator', 'rotates the secret'],
  ['POST', '/webhooks/:id/end-previous', 'endPreviousSecret', 'operator', 'ends the previous secret'],
  ['POST', '/webhooks/:id/move', 'moveWebhook', 'administrator', 'stores new events of the webhook in another cell'],
  ['GET', '/webhooks/:id/test', 'newTest', 'operator', 'the form of a test request'],
  ['POST', '/webhooks/:id/test', 'testWebhook', 'operator', 'sends a signed test request'],
  ['POST', '/webhooks/:id/delete', 'deleteWebhook', 'operator', 'deletes the webhook'],
  ['GET', '/search', 'search', 'viewer', 'webhooks, agents, events and deliveries by name, type or id'],
  ['GET', '/events', 'eventList', 'viewer', 'events, newest first, live'],
  ['GET', '/events/replay', 'replayForm', 'operator', 'asks before all events that match are replayed'],
  ['POST', '/events/replay', 'replayEvents', 'operator', 'creates a job that replays them'],
  ['GET', '/events/replays', 'jobList', 'viewer', 'jobs: replays of many events'],
  ['GET', '/events/replays/:id', 'showJob', 'viewer', 'one job with its progress'],
  ['POST', '/events/replays/:id/cancel', 'cancelJob', 'operator', 'cancels the job'],
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
  ['GET', '/agents/:id/webhooks', 'agentWebhooks', 'viewer', 'the webhooks of the agent and their filters'],
  ['POST', '/agents/:id/webhooks', 'changeWebhooks', 'operator', 'subscribes or unsubscribes the agent'],
  ['POST', '/agents/:id/edit', 'updateAgent', 'operator', 'updates the agent'],
  ['GET', '/agents/:id/edit', 'editAgent', 'operator', 'the form to edit the agent'],
  ['POST', '/agents/:id/filter', 'updateFilter', 'operator', 'sets or tries the filter of a subscription'],
  ['GET', '/agents/:id/filter', 'editFilter', 'operator', 'the form for the filter of a subscription'],
  ['POST', '/agents/:id/pause', 'pauseAgent', 'operator', 'pauses or resumes the agent'],
  ['POST', '/agents/:id/rotate', 'rotateAgent', 'operator', 'rotates the credential'],
  ['POST', '/agents/:id/revoke', 'revokeAgent', 'operator', 'revokes the agent'],
  ['POST', '/agents/:id/undelivered', 'settleUndelivered', 'operator', 'dismisses or moves what a revoked agent left'],
  ['POST', '/agents/:id/replay-dead', 'replayDeadOfAgent', 'operator', 'replays the dead letters of the agent'],
  ['GET', '/webhooks/latency', 'latency', 'viewer', 'how long events take, by webhook and agent'],
  ['GET', '/status', 'status', 'operator', 'versions, database, findings of weir doctor, settings'],
  ['POST', '/status/alerts/test', 'testAlert', 'operator', 'sends a test alert'],
  ['GET', '/deliveries', 'deliveryList', 'viewer', 'deliveries'],
  ['POST', '/deliveries/replay', 'replayDeliveries', 'operator', 'replays dead, dismissed or filtered deliveries'],
  ['POST', '/deliveries/dismiss', 'dismissDeadLetters', 'operator', 'dismisses dead letters, of one reason or all'],
  ['POST', '/deliveries/undo', 'undoDeliveries', 'operator', 'undoes a replay or dismissal of many deliveries'],
  ['GET', '/deliveries/:id', 'showDelivery', 'viewer', 'one delivery with its attempts'],
  ['POST', '/deliveries/:id/replay', 'replayDelivery', 'operator', 'replays the delivery'],
  ['POST', '/deliveries/:id/dismiss', 'dismissDelivery', 'operator', 'dismisses the dead delivery'],
] as const satisfies readonly (readonly [Method, string, string, 'anyone' | Role, string])[];

/** With OAUTH_ENABLED. */
export const oauthPageRoutes = [
  ['GET', '/oauth/authorize', 'authorize', 'viewer', 'asks what an OAuth client may do'],
  ['POST', '/oauth/authorize', 'decideAuthorization', 'viewer', 'sends the client the decision'],
] as const satisfies readonly (readonly [Method, string, string, Role, string])[];

type OperationRow = (typeof operationRoutes)[number];
export type OperationName = OperationRow[2];
type WhoOf<Access> = Access extends 'anyone' | 'agent credential'
  ? null
  : Access extends 'viewer or agent'
    ? Reader
    : Access extends 'agent'
      ? ActiveAgent
      : Person;
/** One operation for each row of operationRoutes, for those whom the row admits. */
export type OperationTable = { [Row in OperationRow as Row[2]]: Operation<WhoOf<Row[3]>> };
