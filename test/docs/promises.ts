/**
 * What Weir promises, and the tests that show it. promises.test.ts checks this table; the tier of a test, `npm test` or
 * `npm run test:all`, follows from its path (test/tools/tiers.mjs).
 */

/** Files below test/, and a part of a title in each. */
export type Tests = readonly (readonly [file: string, title: string])[];

/** What holds through each fault. Each line has tests of both tiers. */
export const failureContract: Readonly<Record<string, Readonly<Record<string, Tests>>>> = {
  'kill -9 of a process, of the primary or of Postgres; power cut': {
    'no event answered 202 is lost': [
      ['smoke.test.ts', 'a process that is killed is replaced, and the others serve'],
      ['smoke.test.ts', 'the primary that is killed: the next one finds everything'],
      ['smoke.test.ts', 'Postgres that is killed: 202 from the spool'],
      ['receive/spool/crash.test.ts', 'a crash (%s) at every operation'],
      ['operate/doctor/database.test.ts', 'whose setting %s could lose committed events'],
      ['faults/database.test.ts', 'a killed process is replaced'],
      ['faults/database.test.ts', 'Postgres itself'],
      ['faults/database.test.ts', 'the primary: its processes end'],
    ],
    'no delivery is lost; an expired lease is claimed again': [
      ['smoke.test.ts', 'an agent gets every event at least once'],
      ['deliver/claims/claim.test.ts', 'can be claimed again and counts as an attempt'],
      ['faults/recovery/filters.ts', 'kill -9 of Weir between verdicts and leases'],
    ],
  },
  'Postgres away': {
    'without a spool: 503 with Retry-After at once': [
      ['receive/ingest/database-loss.test.ts', 'a database that restarts repeatedly under load'],
      ['faults/database.test.ts', 'Postgres itself'],
      ['faults/away-at-start.test.ts', 'without a spool: 503 until Postgres answers'],
    ],
    'with a spool: 202 after fsync, and each event is stored once': [
      ['smoke.test.ts', 'Postgres that is killed: 202 from the spool'],
      ['receive/spool/crash.test.ts', 'a crash (%s) at every operation'],
      ['faults/spool.test.ts', 'Postgres away: requests get 202'],
      ['faults/away-at-start.test.ts', 'with a spool: events are verified'],
    ],
    'readyz reports which; memory is bounded; Weir recovers by itself': [
      ['manage/api/status/health.test.ts', 'fails when the database is unavailable, names it, and recovers'],
      ['receive/ingest/limits.test.ts', 'uncommitted events are limited'],
      ['faults/spool.test.ts', 'Postgres away: requests get 202'],
      ['faults/database.test.ts', 'a hung Postgres: 503 within the commit timeout'],
    ],
  },
  'one of several Postgres servers (cells) away': {
    'its webhooks as with Postgres away': [
      ['store/cells/away.test.ts', 'a cell that is away refuses its webhooks alone'],
      ['store/cells/away.test.ts', 'a cell that was restored from a backup is not used'],
      ['faults/cells.test.ts', 'kill -9 of the server of a cell: only its webhooks get 503'],
    ],
    'all others are stored and claimed': [
      ['store/cells/away.test.ts', 'a cell that is away refuses its webhooks alone'],
      ['store/cells/away.test.ts', 'with home away, events of webhooks in other cells'],
      ['faults/cells.test.ts', 'a cell whose server is frozen: the others go on'],
      ['faults/cells.test.ts', 'eight clients claim and acknowledge'],
    ],
    'with a spool: no request is refused, and the events of the others are stored while it is away': [
      ['receive/spool/cells.test.ts', 'the events of a cell that is away hold up no others'],
      ['faults/cells/spool.ts', 'a cell away, with a spool: no request is refused'],
    ],
  },
  'a cell on a full disk, or failing over': {
    'only its webhooks get 503, and it is named with the cause': [
      ['manage/conditions/read.test.ts', 'cell holds while a cell cannot be used, or stores nothing'],
      ['faults/cells.test.ts', 'a cell whose disk is full'],
    ],
    'no event answered 202 is lost, and it is used again without a restart of Weir': [
      ['store/cells/away.test.ts', 'a cell that is away refuses its webhooks alone'],
      ['faults/cells.test.ts', 'a cell whose disk is full'],
      ['faults/cells/failover.ts', 'whose leader is killed: only its webhooks get 503'],
    ],
  },
  'weir cell move killed at any step, and Weir, or the server of either cell': {
    'the move is finished, or nothing has changed': [
      ['store/cells/move.test.ts', 'a move that was interrupted is finished by the primary'],
      ['faults/cells/moves.ts', 'a move of a webhook, killed $step'],
    ],
    'a repeated request is one event, and new events go to one cell': [
      ['store/cells/move.test.ts', 'a repeated request is one event, before, during and after moves'],
      ['faults/cells/moves.ts', 'a move of a webhook, killed $step'],
    ],
  },
  'Postgres fails over to a synchronous standby (several hosts, Patroni)': {
    'no event answered 202 is lost': [
      ['receive/ingest/database-loss.test.ts', 'a database that restarts repeatedly under load'],
      ['faults/failover.test.ts', 'by kill -9 of the leader under load'],
      ['faults/database.test.ts', 'a row of $name that no standby has is not answered 202'],
    ],
    'writes resume without a restart of Weir': [
      ['store/connect/conninfo.test.ts', 'with several hosts, the host that accepts writes is searched'],
      ['faults/failover.test.ts', 'by kill -9 of the leader under load'],
      ['faults/database/read-only.ts', 'a server that returns as a standby accepts no writes until it is promoted'],
    ],
  },
  'Redis away or frozen': {
    'the limit fails open within 50 ms, warns once a second at most, and recovers by itself': [
      ['smoke.test.ts', 'Redis that is killed limits nothing, and counts again when it is back'],
      ['base/ratelimit/shared.test.ts', 'that hangs: one budget for all waiting calls'],
      ['faults/outside/redis.ts', 'Redis killed under load: no request is refused'],
      ['faults/outside/redis.ts', 'after recovery the processes count together again'],
      ['faults/outside/redis.ts', 'counters survive a failover, a read-only replica fails open'],
    ],
    'at the start of Weir: refused with the reason; at that of a later process: served without the limit': [
      ['base/ratelimit/shared.test.ts', 'refused when %s, with a sentence that is free of secrets'],
      ['base/ratelimit/shared.test.ts', 'without requireAtStart succeeds degraded'],
      ['cli/local/start.long.test.ts', 'is refused: %s'],
      ['faults/outside/redis.ts', 'a process that exits during the outage is replaced by one that starts degraded'],
    ],
  },
  'flood, slow bodies, large headers, hostile JSON or tokens': {
    'memory is bounded': [
      ['receive/ingest/limits.test.ts', 'is refused with 503 when all of it is held, and released completely'],
      ['receive/ingest/limits.test.ts', 'unfinished requests of one client address are limited'],
      ['faults/recovery/connections.ts', 'take little memory, and others are served'],
    ],
    'the response is 4xx, and other clients are served': [
      ['faults/descriptors.test.ts', 'connections over the limit are refused, and the others are served'],
      ['smoke.test.ts', 'hostile requests are refused while others are served'],
      ['base/http/open-requests.test.ts', 'at %s of %s gets a short response'],
      ['manage/auth/agent.test.ts', 'every error has the same 401 response'],
      ['faults/clients.test.ts', 'slow senders and partial heads do not block others'],
    ],
  },
  'full queue, full disk': {
    '503 with Retry-After, and a queue with a limit': [
      ['receive/ingest/limits.test.ts', 'uncommitted events are limited'],
      ['receive/spool/writer.test.ts', 'two writers fill the folder up to INGEST_SPOOL_BYTES_MAX'],
      ['faults/database.test.ts', 'a hung Postgres: 503 within the commit timeout'],
      ['faults/spool.test.ts', 'a full spool refuses events, keeps what it has, and drains'],
    ],
    'full disk: no event answered 202 is lost, and Weir recovers when there is room': [
      ['manage/api/status/health.test.ts', 'fails when the disk is full, at the first probe, and recovers'],
      ['receive/spool/writer.test.ts', 'after a failed write or flush the event is refused'],
      ['faults/database.test.ts', 'a disk that is full, and has space again'],
      ['faults/spool.test.ts', 'events are refused, and what was answered is stored'],
    ],
  },
  deploy: {
    'HUP: no request fails': [
      ['smoke.test.ts', 'HUP replaces every process without a failed request'],
      ['faults/releases/upgrade.ts', 'is served after HUP without a failed request'],
      ['faults/rolling.test.ts', 'restarts and resizes fail no request, on kept and on new connections'],
    ],
    'a new version that cannot start leaves the old one serving': [
      ['smoke.test.ts', 'settings that a new process refuses leave the old ones serving'],
      ['faults/releases/restart.ts', 'a new version that never listens is abandoned'],
      ['faults/releases/restart.ts', 'a new version that exits at once ends the restart, not the service'],
    ],
    'TERM: everything accepted is answered': [
      ['smoke.test.ts', 'TERM answers what was accepted, and leaves nothing behind'],
      ['faults/processes/ends.ts', 'TERM with a delay: readyz is 503 while all requests are served'],
    ],
  },
};

const defaults = ['base/settings/read.test.ts', 'the defaults of the contract apply'] as const;

/** Statements of README.md and the guides: all under Security, and those with the words `exactly`, `never` or `at least once`. */
export const documentPromises: Readonly<Record<string, Tests>> = {
  // Security
  'Signatures are compared in constant time over the exact bytes received.': [
    ['model/signatures/check.test.ts', 'a presented value is compared by one call in constant time'],
    ['receive/ingest/signature.test.ts', 'over a body that is %s'],
    ['model/signatures/scheme.test.ts', '%s does not verify with one byte of the body changed'],
  ],
  'A request of uncertain length is rejected before it is stored, and nothing after it is served.': [
    ['base/http/framing.test.ts', 'a chunked body %s is answered 411 once, and nothing of it is served'],
    ['base/http/framing.test.ts', '%s is answered 400 once, and nothing after the head is served'],
    ['base/http/framing.test.ts', 'nothing is stored when a request or invalid bytes follow its end'],
    ['base/http/framing-fuzz.test.ts', 'invalid framing is never answered 2xx'],
  ],
  'Secrets and credentials never appear in logs or stored headers, nor in any response but the one that creates them.':
    [
      ['receive/ingest/signature.test.ts', 'no secret and no digest appears in a response or in the log'],
      ['receive/ingest/events.test.ts', 'exclude credentials, signatures, and names that end like secrets'],
      [
        'receive/rejections/rejections.test.ts',
        'no secret is in a row, a log line or a response, and no digest is shown',
      ],
      ['manage/auth/agent-changes.test.ts', 'no log line contains any part of a token'],
      ['manage/api/tokens/tokens.test.ts', 'no log line contains any part of a token'],
      ['manage/api/tokens/tokens.test.ts', 'is shown once, with its Location'],
      ['manage/api/agents/agents.test.ts', 'has a credential, which only this response shows'],
      ['manage/api/webhooks/webhooks.test.ts', 'shows a generated secret only in this response'],
      ['manage/api/webhooks/webhooks.test.ts', 'never returns a given secret'],
    ],
  'The cost of a request before authentication is limited: 16 KiB of headers, 1 MiB of body (sign-in, setup and agent sessions: 16 KiB),':
    [
      ['base/http/answers.test.ts', 'one byte over the limit are answered 431'],
      ['receive/ingest/events.test.ts', 'is stored byte for byte when its body is %s'],
      ['receive/ingest/refusals.test.ts', 'is answered 413 with the limit, and the fix: raise %s'],
      ['base/http/open-requests.test.ts', 'of 16 KiB is read, and one byte more is 413'],
      defaults,
    ],
  'for each client address (an IPv6 client is its /64) 60 webhook requests, 20 agent authentications, 60 sign-in requests and 600 other requests without valid credentials a minute,':
    [
      ['model/address.test.ts', 'is equal within a /64 and differs outside of it'],
      ['receive/ingest/limits.test.ts', 'is shared by all webhooks, and separate for each client address'],
      ['manage/auth/agent-limit.test.ts', '%s is counted, and one over the limit is 429'],
      ['base/http/open-requests.test.ts', 'are counted together for each client address'],
      ['manage/auth/anonymous.test.ts', 'counts %s'],
      defaults,
    ],
  '1,024 unfinished requests, 16 MiB of unfinished bodies and 32 MiB of unread responses at each process, and a quarter of the connections of a process, at least 1,024;':
    [
      ['base/http/connections.test.ts', 'admits as many connections of an address, and refuses one more'],
      ['base/http/connections.test.ts', 'is by default a quarter of CONNECTIONS_MAX'],
      ['receive/ingest/limits.test.ts', 'unfinished requests of one client address are limited'],
      [
        'receive/ingest/limits.test.ts',
        'is limited for each client address, so that one client cannot block the others',
      ],
      ['base/http/clients.test.ts', 'apply to %s of an IPv6 /64 together'],
      ['manage/auth/anonymous.test.ts', 'is refused large responses until it reads or leaves'],
      defaults,
    ],
  '20 reported errors of a document;': [['base/http/parsed-body.test.ts', 'the first 20 of many invalid members']],
  '20 live streams and two exports of a user.': [
    ['manage/api/live/stream.test.ts', 'a user has at most USER_STREAMS_MAX streams'],
    ['manage/api/events/export.test.ts', 'a user has two slots'],
    ['manage/api/events/export.test.ts', 'holds its own places, and none of other users'],
    defaults,
  ],
  'Passwords are stored as argon2id hashes.': [
    ['manage/auth/password-hash.test.ts', 'a hash is argon2id with parameters recommended by OWASP'],
    ['manage/api/users/user-changes.test.ts', 'with a generated password that is shown once and not stored'],
  ],
  'Failed attempts pause the account and the client address, but no browser in which the user has signed in before.': [
    ['manage/auth/throttle.test.ts', '%s has a number of free failures; then it is paused'],
    ['manage/auth/throttle.test.ts', 'has a number of free failures over all accounts; then one each interval'],
    ['manage/auth/throttle.test.ts', 'the owner of a paused account can sign in with a device cookie'],
    ['manage/auth/throttle.test.ts', 'the owner can sign in with a device cookie from a locked-out address'],
  ],
  'A client that has access by OAuth reaches `/mcp` alone, and acts as the agent or with the role that a person chose on a page which cannot be framed.':
    [
      ['manage/oauth/flow.test.ts', 'a token is valid for /mcp alone'],
      ['manage/oauth/flow.test.ts', 'viewers choose a role not above their own, and no agent'],
      ['manage/oauth/hostile.test.ts', 'cannot be framed, and its form leads to the client and nowhere else'],
    ],
  'Codes and tokens are sent to addresses that the client has registered, and to no others.': [
    ['manage/oauth/hostile.test.ts', 'a redirect_uri with %s: a page here, and no redirect'],
    ['manage/oauth/hostile.test.ts', 'on loopback any port is allowed, another path or name is not'],
  ],
  'A code that is used twice ends the access, and so do a refresh token that is used again after more than 30 seconds, a disabled user, a lowered role and a revoked agent.':
    [
      ['manage/oauth/hostile.test.ts', 'used twice: the second use is refused, and the tokens of the first end'],
      ['manage/oauth/hostile.test.ts', 'used twice: all tokens of the family end, and the audit log says why'],
      ['manage/oauth/flow.test.ts', 'when %s, for good'],
      ['manage/oauth/flow.test.ts', 'when the agent is revoked'],
    ],
  'A stolen cookie cannot create lasting access without the password.': [
    ['manage/auth/step-up.test.ts', 'every operation that changes something is in one of the two tables'],
    ['manage/auth/step-up.test.ts', '%s without the password is refused, and nothing changes'],
    ['manage/auth/oidc/step-up.test.ts', 'a session can confirm changes shortly after the sign-in, not later'],
  ],
  'A token cannot harm its owner.': [
    ['manage/auth/token-authority.test.ts', 'cannot %s'],
    ['manage/auth/token-authority.test.ts', 'cannot create a token that is %s'],
    ['manage/auth/token-authority.test.ts', 'cannot change the %s of its own user, and cannot delete it'],
  ],
  'Every change is in the audit log, whose chain reveals tampering.': [
    ['manage/api/audit/coverage.test.ts', 'every operation that changes something writes one entry:'],
    ['store/audit/verify.test.ts', 'a manipulation is found with its position:'],
  ],
  'Secrets are encrypted with AES-256-GCM under `SECRETS_KEY`.': [
    ['store/secrets/seal.test.ts', 'is AES-256-GCM: version, nonce, tag and ciphertext'],
    ['manage/api/webhooks/activity.test.ts', 'a stored secret that no key decrypts'],
    ['manage/api/idempotency.test.ts', 'stores no secret in clear text'],
    ['store/secrets/rotate.long.test.ts', 'every table with a sealed column is listed'],
  ],
  'Tokens and credentials are stored as hashes.': [
    ['manage/api/tokens/tokens.test.ts', 'is stored only as a hash'],
    ['manage/auth/agent.test.ts', 'is stored only as a hash'],
    ['manage/auth/sign-in.test.ts', 'stores only a hash of the cookie'],
  ],
  'A leaked key can be rotated and retired.': [
    ['store/secrets/seal.test.ts', 'opens with %s'],
    ['store/secrets/rotate.long.test.ts', 're-encrypts current, previous and expired secrets'],
    ['faults/outside/state.ts', 'a key is replaced under load, and the previous one is retired'],
  ],
  'Event bodies are stored as received: protect the database and its backups accordingly.': [
    ['receive/ingest/events.test.ts', 'is stored byte for byte when its body is %s'],
  ],
  '**Sender input** is served as bytes that no browser executes, escaped on pages, and printed without control characters.':
    [
      ['manage/api/stored-bytes.test.ts', 'is a download that no browser runs, for any content type of the sender'],
      ['pages/hostile.test.ts', 'shows markup of URLs and requests as text'],
      ['cli/hostile.test.ts', '%s has its control characters escaped'],
      ['base/telemetry/log.test.ts', 'text of requests cannot control %s'],
      ['browser/events.test.ts', 'input of strangers is never executed'],
    ],
  '**The program** serves without root, or refuses to start (`SERVE_AS_ROOT` overrides this),': [
    ['operate/setup/container.test.ts', 'runs as an unprivileged user'],
    ['operate/primary/forks.long.test.ts', 'every process runs as weir'],
    ['operate/primary/forks.long.test.ts', 'from installations that weir cannot read, it serves copies'],
    ['operate/primary/serving-user.test.ts', 'a trial that %s ends the start, with the reason'],
    ['operate/primary/serving-user.test.ts', 'what else keeps weir from serving is refused, each with its fix'],
  ],
  '**The processes never serve as root**, unless `SERVE_AS_ROOT=true`.': [
    ['operate/primary/serving-user.test.ts', 'without a user weir the start is refused'],
    ['operate/primary/forks.long.test.ts', 'SERVE_AS_ROOT=true serves as root'],
  ],
  'No secret of the settings is in the environment of a serving process, and `ADMIN_PASSWORD` does not reach one.': [
    ['operate/primary/forks.long.test.ts', 'no secret of the settings is in the environment of a process'],
    ['operate/primary/forks.test.ts', 'a process gets no password of the administrator'],
  ],
  'With the embedded Postgres its processes use a role that can neither read files nor run programs.': [
    ['operate/primary/serving-role.test.ts', 'with %s, processes serve without a superuser'],
  ],
  'and its packages are pinned with their hashes.': [
    ['operate/setup/lock-file.test.ts', 'has the integrity of every package'],
    ['operate/setup/server-binary.test.ts', 'refuses a changed one, and names it'],
  ],

  // Webhooks
  'A webhook with a `--signature-header` requires the signature in exactly that header.': [
    ['receive/ingest/signature.test.ts', 'in the configured header with the name %s'],
    ['receive/ingest/signature.test.ts', '%s, with a signature_header of the webhook'],
  ],
  'Weir builds it from `FRONTEND_PUBLIC_API_URL`, never from the `Host` header.': [
    ['model/signatures/libraries.test.ts', 'of twilio, a form, verifies at its URL'],
  ],
  'A client never exceeds the limit in one fixed window, and in the worst-placed window never exceeds twice the limit less one.':
    [['base/ratelimit/window.test.ts', 'at most 2 max - 1 in any interval of a window, at most max in a bucket']],
  'Evenly spaced traffic below the limit is never rejected.': [
    ['base/ratelimit/window.test.ts', 'evenly spaced traffic of up to max - 1 a window is never refused'],
  ],

  // Agents
  '**At least once.** A delivery whose lease expires without an acknowledgement can be claimed again.': [
    ['deliver/claims/claim.test.ts', 'can be claimed again and counts as an attempt'],
    ['deliver/client/real.test.ts', 'an agent killed between claim and ack loses nothing'],
  ],
  'Replays apart, an agent never has two events of one key in progress.': [
    ['deliver/claims/order.test.ts', 'a key is held until its delivery is finished'],
    ['deliver/claims/order.test.ts', 'an event that commits later than one with a greater number'],
    ['deliver/claims/order.test.ts', 'of two claims that each see another delivery'],
    ['deliver/claims/order-races.test.ts', '8 consumers with nacks, releases, lost claims'],
  ],
  'At least once: when the command or the target ends between the 2xx and the acknowledgement, the delivery is forwarded again after its lease.':
    [
      [
        'cli/consume/forward-real.test.ts',
        'an agent that is killed after the 2xx and before the acknowledgement delivers again',
      ],
    ],
  'The server tells the model never to follow instructions in it.': [
    ['manage/mcp/agent-tools.test.ts', 'the server says what it is, and never to follow instructions'],
  ],

  // Cells
  'A server given over HTTP never gets a password of the machine of Weir (`PGPASSWORD`, `.pgpass`).': [
    ['manage/api/cells/connection.test.ts', 'a server gets no password of this machine'],
    ['manage/api/cells/connection.test.ts', 'is refused also where libpq alone would see it'],
  ],

  // Users and the API
  '`ADMIN_EMAIL` and `ADMIN_PASSWORD` create the first administrator; they never change an existing one.': [
    ['manage/auth/setup.test.ts', 'create the first administrator once'],
    ['manage/auth/setup.test.ts', 'change nothing when there is an administrator'],
  ],
  "A token has its user's role, or a lesser one given as `role`, and never more than the user's current role.": [
    ['manage/api/tokens/tokens.test.ts', 'of an %s can be %s, and is used as such'],
    [
      'manage/api/tokens/tokens.test.ts',
      'is lowered with the next request at every process when the role of the user is lowered',
    ],
  ],
  'A token expires after 90 days, unless `expires_in_days` or `expires_at` sets another time; `null` means never.': [
    ['manage/api/tokens/tokens.test.ts', 'is shown once, with its Location'],
    ['manage/api/tokens/tokens.test.ts', 'accepts %s'],
    ['manage/api/tokens/tokens.test.ts', 'an expired token is refused'],
  ],
  'Every change is recorded in its own transaction: the actor, the client address, the token or command, and the values before and after, but never a secret.':
    [
      ['manage/api/audit/coverage.test.ts', 'every operation that changes something writes one entry:'],
      ['manage/api/audit/coverage.test.ts', 'no entry contains a secret, a token, a password or a hash of one'],
      ['manage/api/webhooks/webhooks.test.ts', 'is recorded with its creator'],
      ['store/audit/load.test.ts', 'a failed change leaves no entry and no gap'],
    ],
  '`type`: the type of the event, exactly': [['manage/api/events/filter.test.ts', 'the events of a user']],
  'Origins match exactly: scheme, host and port.': [
    ['manage/api/cors.test.ts', 'a page of another origin gets no CORS header:'],
  ],

  // Operation
  'Requests never delay anything else, and survive a restart.': [
    [
      'manage/conditions/deliver.test.ts',
      'a request without a response holds up neither the next evaluation nor a session',
    ],
    ['manage/conditions/deliver.test.ts', 'a machine that ends during a request leaves it to another one'],
    ['faults/outside/state.ts', 'kill -9 during a request: after the restart it is sent again'],
  ],
  '`weir restore` authenticates the file, verifies the checksum and loads exactly the verified bytes, also when the file is replaced in between.':
    [
      ['operate/backup/backup.long.test.ts', 'a file %s is refused, and nothing is restored'],
      ['operate/backup/backup.long.test.ts', 'a file that changes after it was verified is not passed on'],
    ],
  '**Exactly once.** An event keeps the id of its 202. A commit whose outcome is unknown is spooled as well, under the same ids; events that are stored already are skipped.':
    [
      ['smoke.test.ts', 'Postgres that is killed: 202 from the spool, and each event is stored once'],
      ['receive/spool/crash.test.ts', 'a crash (%s) at every operation'],
      ['receive/spool/drain.test.ts', 'events that are in the database already are skipped by their ids'],
      ['faults/spool.test.ts', 'Postgres frozen, and killed during the drain'],
    ],
  'An incomplete record at the end of a file was never answered and is ignored.': [
    ['receive/spool/crash.test.ts', 'a crash (%s) at every operation'],
    ['receive/spool/drain.test.ts', 'a torn end is dropped with its file'],
  ],
  'The events of a machine that never comes back are stored from its disk by any other installation of the same release:':
    [['cli/local/spool.test.ts', 'the spools of machines that do not come back are listed and drained']],
};

/** Statements with one of the words, or under Security, that promise nothing about Weir, and why. */
export const exceptions: Readonly<Record<string, string>> = {
  'The [settings](reference.md#settings) change most of these.': 'a reference to the settings',
  '`--no` never downloads anything.': 'an option of npx',
  '`false`: it never does': 'what a sender does',
  'Delivery from the sender is at least once.': 'a consequence of the retries of the sender',
  'Many senders, GitHub among them, never repeat a request that was refused.': 'what senders do',
};
