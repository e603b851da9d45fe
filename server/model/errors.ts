/** The table of all problems that Weir answers with. The guide's table is generated from it. */

export interface ProblemRow {
  status: number;
  detail: string;
}

/** By status and code. Each says what is wrong and how to fix it. A problem may replace it with a more specific sentence. */
const details = {
  400: {
    length_invalid:
      'The length of the body is uncertain: send Content-Length once, in decimal digits, without a Transfer-Encoding.',
    host_repeated: 'Send the header Host once.',
    sign_in_expired:
      'This sign-in was not started in this browser, took longer than 10 minutes, or is already complete; start again.',
    invalid_json: 'The body must be JSON in UTF-8.',
    idempotency_key_invalid: 'The Idempotency-Key must be 1 to 255 printable characters of ASCII.',
  },
  401: {
    agent_unauthenticated: 'Present an agent credential or an active session, as Authorization: Bearer.',
    unauthenticated: 'Sign in, or present an active token, as Authorization: Bearer.',
    sign_in_failed: 'The email or the password is wrong, or the account is not active.',
    signature_unauthenticated: 'The signature is missing or does not match.',
  },
  403: {
    setup_refused: 'This is not the setup URL of this database; the log of the last start shows the right one.',
    invitation_refused: 'This invitation link has expired, or was used or revoked: ask an administrator for a new one.',
    forbidden: 'Your role does not allow this.',
    reauthentication_required:
      'Confirm who you are: repeat the change with your password as current_password or, with AUTH_MODE hosted, after signing in again.',
    session_required:
      'This needs the session cookie of a signed-in browser. An API token may revoke itself and the tokens that it created; it cannot change anything else of its own user.',
    csrf_refused:
      "A change authenticated by a cookie must come from a page of Weir or of CORS_ORIGINS, with the session's token in X-CSRF-Token; reload the page.",
    origin_refused:
      'The request comes from a page of another site, by its Origin or its Host: set PUBLIC_URL to the address that clients use, or add the origin to CORS_ORIGINS.',
    sign_in_denied: 'The identity provider did not sign you in; start again, or ask its administrator.',
    identity_refused:
      'The response of the identity provider is not valid; start again. The log has the reason under the request id.',
    role_missing:
      'The identity provider gives you no role in Weir: the claim OIDC_ROLE_CLAIM must hold administrator, operator or viewer.',
    token_suspended:
      'This API token is suspended, because the identity provider has not confirmed the role of its user for too long. It is active again as soon as the user signs in to the pages.',
    user_disabled: 'This user is disabled; ask an administrator of Weir.',
    signature_missing: 'The webhook has a secret, but the request has no signature in the configured header.',
    signature_malformed: 'The signature header must be sent once and read sha256= followed by 64 hex digits.',
    signature_mismatch:
      'The signature does not match: compute HMAC-SHA256 over the exact bytes of the body with the secret of this webhook.',
    signature_timestamp:
      'The signature is valid, but the time of the request is too far from the clock of this server.',
    signature_body_too_complex:
      'The body has more bytes or form fields than the signature scheme of this webhook reads to check a signature; have the sender send less in one request.',
    verify_token_mismatch:
      'The hub.verify_token of the request is not the verify token of this webhook: enter the same one at the sender and in Weir.',
  },
  404: {
    not_found: 'There is nothing at this path.',
    local_mode_only: 'AUTH_MODE is hosted: users sign in at the OpenID Connect provider, and Weir keeps no passwords.',
    session_unknown: 'You have no such session: it has ended, or the request came with a token.',
    setup_closed: 'An administrator already exists: sign in.',
    user_unknown: 'No user has this id.',
    cell_unknown: 'No cell has this number or name, or it is home, which cannot be changed, drained or removed.',
    webhook_unknown: 'No webhook has this id.',
    agent_unknown: 'No active agent has this id.',
    delivery_unknown: 'No delivery that you may see has this id.',
    action_unknown: 'No replay or dismissal of the last 24 hours that was not undone has this id.',
    rejection_unknown: 'No rejection has this id.',
    rejection_without_body:
      'The body of this rejection was not kept: it was larger than REJECTION_BODY_BYTES_MAX, or it held the secret. Have the sender repeat the request.',
    event_unknown: 'No event that you may see has this id.',
    token_unknown: 'No token that you may see has this id.',
    issue_unknown: 'No issue has this id; resolved issues are deleted after 90 days.',
    secret_unknown: 'The webhook has no previous secret.',
    job_unknown: 'No job has this id; finished jobs are deleted after 30 days.',
  },
  405: {
    method_not_allowed: 'The Allow header lists the methods of this path.',
  },
  409: {
    password_exists: 'This user has a password: set a new one instead.',
    cell_name_taken: 'Another cell has this name.',
    cell_unready: 'The cell is being added: its configuration is not complete yet. If that was interrupted, remove it.',
    cell_in_use: 'The cell has webhooks or events: drain it, and wait until retention has removed its last event.',
    cell_unfit: 'New events cannot go to this cell: it is draining, does not answer, or stores nothing.',
    webhook_moving:
      'The webhook is moving to another cell. Weir finishes the move when both cells answer: repeat this in a moment, or move it back.',
    alert_url_unset: 'ALERT_URL is unset: set it, then run weir reload, or restart Weir.',
    id_taken: 'This id is in use, or was used for something else: give another one.',
    name_taken: 'Another active agent has this name.',
    email_taken: 'Another user has this email address.',
    last_administrator: 'This is the last active administrator: give another user the role administrator first.',
    email_of_another_user:
      'Another user of Weir has this email address, and the identity provider does not confirm that it is yours.',
    delivery_unfinished: 'This delivery is already pending or leased.',
    agent_active: 'This agent is not revoked: its deliveries wait for it. Revoke it first.',
    delivery_not_dead: 'Only a dead delivery can be dismissed.',
    idempotency_in_progress: 'A request with this Idempotency-Key is in progress; repeat it in a moment.',
    idempotency_response_lost:
      'The change with this Idempotency-Key was made, but its response was lost: read the current state. Another change needs another key.',
    rejection_unverified:
      'This request does not verify with the current secret and signature header of the webhook: fix the cause that its hint names, then check it again.',
    rejection_of_batch: 'This request was a batch, and each line is a separate event: have the sender repeat it.',
    tokens_too_many: 'You have 100 active tokens, which is the maximum; revoke some first.',
    job_finished: 'This job has already ended.',
    jobs_full: 'There are 100 unfinished jobs: wait until some have ended, or cancel them.',
  },
  410: {
    webhook_disabled: 'This webhook is disabled: an operator can enable it again.',
  },
  411: {
    length_required:
      'The body is chunked: send it with a Content-Length, put a proxy that buffers requests in front, or set CHUNKED_BODIES=accept.',
  },
  412: {
    precondition_failed:
      'The resource has changed since its ETag was read: read it again, then repeat the change with the new ETag in If-Match.',
  },
  413: {
    body_too_large:
      'The request body exceeds its limit: 1024 KiB, 256 KiB for MCP, and 16 KiB for sign-in, setup and agent sessions.',
    payload_too_large:
      'The payload exceeds the limit: raise WEBHOOK_MAX_PAYLOAD_BYTES or send a URL reference instead of inline content.',
    batch_too_large: 'The batch has more lines than BATCH_LINES_MAX; send it in parts.',
  },
  422: {
    invalid_request: 'The member errors lists each invalid field.',
    idempotency_key_reused:
      'This Idempotency-Key was used for another request within 24 hours; a new request needs a new key.',
    no_recipients:
      'No agent would get these events, because none is subscribed: subscribe an agent to the webhook, or replay to named agents beyond subscriptions.',
    batch_empty: 'The batch has no line: send newline-delimited JSON, one event a line.',
    batch_unsupported:
      'The signature scheme of this webhook signs single events, so that a batch could repeat one: send each event to the URL of the webhook, or, if the sender signs newline-delimited JSON, set "batch": true in the scheme_definition.',
    answer_invalid: 'The members of the answer do not fit together, or to the signature scheme of the webhook.',
    order_by_invalid:
      'The order_by is neither a JSON Pointer nor header:NAME of a stored header, or the webhook has 4 others.',
    batch_invalid:
      'Nothing was stored, because some lines are not JSON; the member errors lists the first of them, by line number.',
    row_refused: 'The database refused to store this request as it is.',
  },
  429: {
    rate_limited: 'Too many requests from this client address; wait as long as Retry-After says.',
    sign_in_limited: 'Too many attempts have failed, for this account or from this address; wait before the next one.',
    user_exports_full: 'Two of your exports are in progress in this process; wait until one has ended, or cancel it.',
    user_streams_full: 'You have USER_STREAMS_MAX live streams in this process; close some, then try again.',
  },
  431: {
    headers_too_large: 'The request headers exceed HEADER_BYTES_MAX.',
  },
  500: {
    internal: 'Something went wrong; the log has the cause under the request id.',
  },
  503: {
    sign_in_busy: 'Too many passwords are being checked at the moment; repeat the request.',
    identity_provider_unavailable: 'The identity provider cannot be reached; repeat the request.',
    search_busy: 'Too many searches are in progress; repeat the request, or narrow it with from and to.',
    queue_full: 'Too many events are waiting to be committed; repeat the request.',
    memory_full: 'Too many request bodies are held at the moment; repeat the request.',
    client_busy: 'This client address has too many unfinished requests; finish some, then repeat this one.',
    database_unavailable: 'The database cannot be reached or accepts no writes; repeat the request.',
    verification_unavailable: 'The signature could not be checked in time; repeat the request.',
    secret_unavailable:
      'Neither SECRETS_KEY nor SECRETS_KEY_PREVIOUS decrypts the stored secret of this webhook, so the signature cannot be checked; the operator of Weir must set the right key.',
    exports_full: 'This process already sends as many exports as it can; try again when one has ended.',
    streams_full: 'This process already serves STREAMS_MAX live streams, or is stopping; try again.',
  },
} as const;

type Details = typeof details;
export type ProblemCode = { [Status in keyof Details]: keyof Details[Status] }[keyof Details];

export const problems = Object.fromEntries(
  Object.entries(details).flatMap(([status, ofStatus]) =>
    Object.entries(ofStatus).map(([code, detail]) => [code, { status: Number(status), detail }]),
  ),
) as Readonly<Record<ProblemCode, ProblemRow>>;
