/** The table of all problems that Weir answers with. The guide's table is generated from it. */

/** `detail` says what is wrong and how to fix it. A problem may replace it with a more specific sentence. */
export interface ProblemRow {
  status: number;
  detail: string;
}

export const problems = {
  not_found: { status: 404, detail: 'There is nothing at this path.' },
  method_not_allowed: { status: 405, detail: 'The Allow header lists the methods of this path.' },
  length_required: {
    status: 411,
    detail:
      'The body is chunked: send it with a Content-Length, put a proxy that buffers requests in front, or set CHUNKED_BODIES=accept.',
  },
  length_invalid: {
    status: 400,
    detail:
      'The length of the body is uncertain: send Content-Length once, in decimal digits, without a Transfer-Encoding.',
  },
  host_repeated: { status: 400, detail: 'Send the header Host once.' },
  headers_too_large: { status: 431, detail: 'The request headers exceed HEADER_BYTES_MAX.' },
  rate_limited: {
    status: 429,
    detail: 'Too many requests from this client address; wait as long as Retry-After says.',
  },
  agent_unauthenticated: {
    status: 401,
    detail: 'Present an agent credential or an active session, as Authorization: Bearer.',
  },
  unauthenticated: { status: 401, detail: 'Sign in, or present an active token, as Authorization: Bearer.' },
  sign_in_failed: { status: 401, detail: 'The email or the password is wrong, or the account is not active.' },
  sign_in_limited: {
    status: 429,
    detail: 'Too many attempts have failed, for this account or from this address; wait before the next one.',
  },
  sign_in_busy: { status: 503, detail: 'Too many passwords are being checked at the moment; repeat the request.' },
  local_mode_only: {
    status: 404,
    detail: 'AUTH_MODE is hosted: users sign in at the OpenID Connect provider, and Weir keeps no passwords.',
  },
  session_unknown: { status: 404, detail: 'You have no such session: it has ended, or the request came with a token.' },
  setup_closed: { status: 404, detail: 'An administrator already exists: sign in.' },
  setup_refused: {
    status: 403,
    detail: 'This is not the setup URL of this database; the log of the last start shows the right one.',
  },
  invitation_refused: {
    status: 403,
    detail: 'This invitation link has expired, or was used or revoked: ask an administrator for a new one.',
  },
  password_exists: { status: 409, detail: 'This user has a password: set a new one instead.' },
  user_unknown: { status: 404, detail: 'No user has this id.' },
  cell_unknown: { status: 404, detail: 'No cell has this number or name.' },
  cell_name_taken: { status: 409, detail: 'Another cell has this name.' },
  cell_unready: { status: 409, detail: 'The cell is being added: its configuration is not complete yet.' },
  cell_in_use: {
    status: 409,
    detail: 'The cell has webhooks or events: drain it, and wait until retention has removed its last event.',
  },
  cell_unfit: {
    status: 409,
    detail: 'New events cannot go to this cell: it is draining, does not answer, or stores nothing.',
  },
  webhook_moving: {
    status: 409,
    detail:
      'The webhook is moving to another cell. Weir finishes the move when both cells answer: repeat this in a moment, or move it back.',
  },
  alert_url_unset: { status: 409, detail: 'ALERT_URL is unset: set it, then run weir reload, or restart Weir.' },
  id_taken: { status: 409, detail: 'This id is in use, or was used for something else: give another one.' },
  name_taken: { status: 409, detail: 'Another active agent has this name.' },
  email_taken: { status: 409, detail: 'Another user has this email address.' },
  last_administrator: {
    status: 409,
    detail: 'This is the last active administrator: give another user the role administrator first.',
  },
  forbidden: { status: 403, detail: 'Your role does not allow this.' },
  reauthentication_required: {
    status: 403,
    detail:
      'Confirm who you are: repeat the change with your password as current_password or, with AUTH_MODE hosted, after signing in again.',
  },
  session_required: {
    status: 403,
    detail:
      'This needs the session cookie of a signed-in browser. An API token may revoke itself and the tokens that it created; it cannot change anything else of its own user.',
  },
  csrf_refused: {
    status: 403,
    detail:
      "A change authenticated by a cookie must come from a page of Weir or of CORS_ORIGINS, with the session's token in X-CSRF-Token; reload the page.",
  },
  origin_refused: {
    status: 403,
    detail:
      'The request comes from a page of another site, by its Origin or its Host: set PUBLIC_URL to the address that clients use, or add the origin to CORS_ORIGINS.',
  },
  sign_in_expired: {
    status: 400,
    detail:
      'This sign-in was not started in this browser, took longer than 10 minutes, or is already complete; start again.',
  },
  sign_in_denied: {
    status: 403,
    detail: 'The identity provider did not sign you in; start again, or ask its administrator.',
  },
  identity_refused: {
    status: 403,
    detail:
      'The response of the identity provider is not valid; start again. The log has the reason under the request id.',
  },
  role_missing: {
    status: 403,
    detail:
      'The identity provider gives you no role in Weir: the claim OIDC_ROLE_CLAIM must hold administrator, operator or viewer.',
  },
  email_of_another_user: {
    status: 409,
    detail: 'Another user of Weir has this email address, and the identity provider does not confirm that it is yours.',
  },
  token_suspended: {
    status: 403,
    detail:
      'This API token is suspended, because the identity provider has not confirmed the role of its user for too long. It is active again as soon as the user signs in to the pages.',
  },
  user_disabled: { status: 403, detail: 'This user is disabled; ask an administrator of Weir.' },
  identity_provider_unavailable: {
    status: 503,
    detail: 'The identity provider cannot be reached; repeat the request.',
  },
  invalid_json: { status: 400, detail: 'The body must be JSON in UTF-8.' },
  invalid_request: { status: 422, detail: 'The member errors lists each invalid field.' },
  body_too_large: {
    status: 413,
    detail:
      'The request body exceeds its limit: 1024 KiB, 256 KiB for MCP, and 16 KiB for sign-in, setup and agent sessions.',
  },
  webhook_unknown: { status: 404, detail: 'No webhook has this id.' },
  agent_unknown: { status: 404, detail: 'No active agent has this id.' },
  delivery_unknown: { status: 404, detail: 'No delivery that you may see has this id.' },
  delivery_unfinished: { status: 409, detail: 'This delivery is already pending or leased.' },
  agent_active: {
    status: 409,
    detail: 'This agent is not revoked: its deliveries wait for it. Revoke it first.',
  },
  delivery_not_dead: { status: 409, detail: 'Only a dead delivery can be dismissed.' },
  action_unknown: {
    status: 404,
    detail: 'No replay or dismissal of the last 24 hours that was not undone has this id.',
  },
  idempotency_key_invalid: {
    status: 400,
    detail: 'The Idempotency-Key must be 1 to 255 printable characters of ASCII.',
  },
  idempotency_in_progress: {
    status: 409,
    detail: 'A request with this Idempotency-Key is in progress; repeat it in a moment.',
  },
  idempotency_response_lost: {
    status: 409,
    detail:
      'The change with this Idempotency-Key was made, but its response was lost: read the current state. Another change needs another key.',
  },
  idempotency_key_reused: {
    status: 422,
    detail: 'This Idempotency-Key was used for another request within 24 hours; a new request needs a new key.',
  },
  precondition_failed: {
    status: 412,
    detail:
      'The resource has changed since its ETag was read: read it again, then repeat the change with the new ETag in If-Match.',
  },
  webhook_disabled: { status: 410, detail: 'This webhook is disabled: an operator can enable it again.' },
  search_busy: {
    status: 503,
    detail: 'Too many searches are in progress; repeat the request, or narrow it with from and to.',
  },
  rejection_unknown: { status: 404, detail: 'No rejection has this id.' },
  rejection_without_body: {
    status: 404,
    detail:
      'The body of this rejection was not kept: it was larger than REJECTION_BODY_BYTES_MAX, or it held the secret. Have the sender repeat the request.',
  },
  rejection_unverified: {
    status: 409,
    detail:
      'This request does not verify with the current secret and signature header of the webhook: fix the cause that its hint names, then check it again.',
  },
  rejection_of_batch: {
    status: 409,
    detail: 'This request was a batch, and each line is a separate event: have the sender repeat it.',
  },
  event_unknown: { status: 404, detail: 'No event that you may see has this id.' },
  token_unknown: { status: 404, detail: 'No token that you may see has this id.' },
  tokens_too_many: { status: 409, detail: 'You have 100 active tokens, which is the maximum; revoke some first.' },
  no_recipients: {
    status: 422,
    detail:
      'No agent would get these events, because none is subscribed: subscribe an agent to the webhook, or replay to named agents beyond subscriptions.',
  },
  issue_unknown: { status: 404, detail: 'No issue has this id; resolved issues are deleted after 90 days.' },
  secret_unknown: { status: 404, detail: 'The webhook has no previous secret.' },
  job_unknown: { status: 404, detail: 'No job has this id; finished jobs are deleted after 30 days.' },
  job_finished: { status: 409, detail: 'This job has already ended.' },
  jobs_full: { status: 409, detail: 'There are 100 unfinished jobs: wait until some have ended, or cancel them.' },
  payload_too_large: {
    status: 413,
    detail:
      'The payload exceeds the limit: raise WEBHOOK_MAX_PAYLOAD_BYTES or send a URL reference instead of inline content.',
  },
  batch_too_large: { status: 413, detail: 'The batch has more lines than BATCH_LINES_MAX; send it in parts.' },
  batch_empty: { status: 422, detail: 'The batch has no line: send newline-delimited JSON, one event a line.' },
  batch_unsupported: {
    status: 422,
    detail:
      'The signature scheme of this webhook signs single events, so that a batch could repeat one: send each event to the URL of the webhook, or, if the sender signs newline-delimited JSON, set "batch": true in the scheme_definition.',
  },
  answer_invalid: {
    status: 422,
    detail: 'The members of the answer do not fit together, or to the signature scheme of the webhook.',
  },
  order_by_invalid: {
    status: 422,
    detail: 'The order_by is neither a JSON Pointer nor header:NAME of a stored header, or the webhook has 4 others.',
  },
  batch_invalid: {
    status: 422,
    detail:
      'Nothing was stored, because some lines are not JSON; the member errors lists the first of them, by line number.',
  },
  signature_missing: {
    status: 403,
    detail: 'The webhook has a secret, but the request has no signature in the configured header.',
  },
  signature_malformed: {
    status: 403,
    detail: 'The signature header must be sent once and read sha256= followed by 64 hex digits.',
  },
  signature_mismatch: {
    status: 403,
    detail:
      'The signature does not match: compute HMAC-SHA256 over the exact bytes of the body with the secret of this webhook.',
  },
  signature_timestamp: {
    status: 403,
    detail: 'The signature is valid, but the time of the request is too far from the clock of this server.',
  },
  signature_body_too_complex: {
    status: 403,
    detail:
      'The body has more bytes or form fields than the signature scheme of this webhook reads to check a signature; have the sender send less in one request.',
  },
  signature_unauthenticated: { status: 401, detail: 'The signature is missing or does not match.' },
  verify_token_mismatch: {
    status: 403,
    detail:
      'The hub.verify_token of the request is not the verify token of this webhook: enter the same one at the sender and in Weir.',
  },
  queue_full: { status: 503, detail: 'Too many events are waiting to be committed; repeat the request.' },
  memory_full: { status: 503, detail: 'Too many request bodies are held at the moment; repeat the request.' },
  client_busy: {
    status: 503,
    detail: 'This client address has too many unfinished requests; finish some, then repeat this one.',
  },
  database_unavailable: {
    status: 503,
    detail: 'The database cannot be reached or accepts no writes; repeat the request.',
  },
  verification_unavailable: { status: 503, detail: 'The signature could not be checked in time; repeat the request.' },
  secret_unavailable: {
    status: 503,
    detail:
      'Neither SECRETS_KEY nor SECRETS_KEY_PREVIOUS decrypts the stored secret of this webhook, so the signature cannot be checked; the operator of Weir must set the right key.',
  },
  exports_full: {
    status: 503,
    detail: 'This process already sends as many exports as it can; try again when one has ended.',
  },
  user_exports_full: {
    status: 429,
    detail: 'Two of your exports are in progress in this process; wait until one has ended, or cancel it.',
  },
  streams_full: {
    status: 503,
    detail: 'This process already serves STREAMS_MAX live streams, or is stopping; try again.',
  },
  user_streams_full: {
    status: 429,
    detail: 'You have USER_STREAMS_MAX live streams in this process; close some, then try again.',
  },
  row_refused: { status: 422, detail: 'The database refused to store this request as it is.' },
  internal: { status: 500, detail: 'Something went wrong; the log has the cause under the request id.' },
} as const satisfies Record<string, ProblemRow>;

export type ProblemCode = keyof typeof problems;
