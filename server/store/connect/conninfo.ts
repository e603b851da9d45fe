/** Connections through libpq: parameters that Weir adds to the operator's connection string, their display, and what every connection needs. */

/**
 * Adds libpq parameters that the string does not contain yet. Supports both forms of libpq, the URI and `key=value` words.
 * @see https://www.postgresql.org/docs/current/libpq-connect.html
 */
export function withParameters(conninfo: string, parameters: Record<string, string>): string {
  const missing = Object.entries(parameters).filter(([name]) => !new RegExp(`(^|[\\s?&])${name}\\s*=`).test(conninfo));
  return append(conninfo, missing);
}

/** Restricts the connection to a server and session that accept writes: otherwise libpq tries the next host, or fails. */
export function writableConninfo(conninfo: string): string {
  // When a parameter is given twice, libpq uses the last.
  return append(conninfo, [['target_session_attrs', 'read-write']]);
}

function append(conninfo: string, parameters: [name: string, value: string][]): string {
  if (parameters.length === 0) return conninfo;
  if (!isUri(conninfo)) return [conninfo, ...parameters.map(([name, value]) => `${name}='${value}'`)].join(' ');
  const query = parameters.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  return conninfo + (conninfo.includes('?') ? '&' : '?') + query;
}

/**
 * Adds Weir's parameters: the application name, timeouts that detect a dead server within seconds, and with several hosts the search for
 * the host that accepts writes.
 * @param serverSettings further libpq options, each as ` -c name=value`.
 */
export function weirConninfo(conninfo: string, applicationName: string, serverSettings = ''): string {
  const options = `-c timezone=UTC -c client_min_messages=warning ${noStatementTimeout} ${serverKeepalives} ${jitOff}${serverSettings}`;
  const schema = schemaOf(conninfo);
  const complete = withParameters(findableConninfo(conninfo), {
    application_name: applicationName,
    tcp_user_timeout: '10000',
    keepalives_idle: '10',
    client_encoding: 'UTF8',
    options,
  });
  return schema === undefined ? complete : append(complete, [['options', `${options} ${inSchema(schema)}`]]);
}

/** Makes a schema of the database that of the sessions. For cells on Citus: their tables (shards) are otherwise hidden there. */
export function withSchema(conninfo: string, schema: string): string {
  return append(conninfo, [['options', inSchema(schema)]]);
}

function inSchema(schema: string): string {
  return `-c citus.override_table_visibility=off -c search_path=${schema}`;
}

/** The schema that withSchema has set. */
function schemaOf(conninfo: string): string | undefined {
  return /search_path(?:=|%3D)(weir_cell_\w+)'?$/.exec(conninfo)?.[1];
}

/** The same database on another server of its cluster. */
export function onServer(conninfo: string, { host, port }: { host: string; port: number }): string {
  if (isUri(conninfo)) {
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const [, start, rest] = /^(\w+:\/\/(?:[^/?]*@)?)[^/?]*(.*)$/s.exec(conninfo)!;
    return `${start}${address}${rest!.replace(/(?<=[?&])(host|hostaddr|port)=[^&]*&?/g, '')}`;
  }
  const others = conninfo.replace(/(^|\s)(host|hostaddr|port)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)/gs, '');
  return append(others.trim(), [
    ['host', host],
    ['port', String(port)],
  ]);
}

/** Adds what every program needs to find the database: a timeout, and with several hosts the search for the host that accepts writes. */
export function findableConninfo(conninfo: string): string {
  const isList = targetOf(conninfo).hosts.length > 1;
  return withParameters(conninfo, {
    // Timeout of each host. libpq tries hosts in order, and a connection takes a thread of libuv's pool while it tries: a dead machine listed
    // first delays every connection by this time. 2 is libpq's minimum.
    connect_timeout: isList ? '2' : '5',
    ...(isList ? { target_session_attrs: 'read-write' } : {}),
  });
}

/**
 * Separates the password from the rest of a connection string, for a program whose arguments every user of the machine can read.
 * `password`: undefined if the string contains none.
 */
export function splitPassword(conninfo: string): { withoutPassword: string; password: string | undefined } {
  let password: string | undefined;
  const take = (text: string, decode: (text: string) => string) => {
    password = decode(text);
    return '';
  };
  const withoutPassword = isUri(conninfo)
    ? conninfo
        // libpq ends the user part at the first @ or /, so that neither occurs in a password.
        .replace(
          /^(\w+:\/\/[^:@/]*):([^@/]*)(?=@)/,
          (_, head: string, text: string) => head + take(text, decodeURIComponent),
        )
        .replace(/(?<=[?&])password=([^&]*)&?/, (_, text: string) => take(text, decodeURIComponent))
        .replace(/[?&]$/, '')
    : conninfo.replace(
        /(\w+)(\s*=\s*)('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)/gs,
        (word, name: string, _equals: string, text: string) => (name === 'password' ? take(text, unquoted) : word),
      );
  return { withoutPassword, password };
}

/** The value of a word in libpq's key=value form. */
function unquoted(text: string): string {
  return (text.startsWith("'") ? text.slice(1, -1) : text).replace(/\\(.)/gs, '$1');
}

/**
 * The server ends the session of a machine that is cut off within 25 seconds, and with it its locks. By default it waits two hours, during which
 * an open COPY would block the removal of old partitions, and a migration. Ignored on a socket of the machine.
 */
const serverKeepalives = '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3';

/** A limit that the role or the database sets would cancel claims and jobs. Weir limits the time of its statements itself, see pool.ts. */
const noStatementTimeout = '-c statement_timeout=0';

/**
 * Why a connection string from another machine is refused; null: it is not. It must be a URI with a host, and name no file, socket, service
 * or option of a session: libpq would read them on this machine.
 */
export function uriFault(conninfo: string): string | null {
  if (!isUri(conninfo)) return 'Give a URI: postgres://USER:PASSWORD@HOST:PORT/DATABASE.';
  const { hosts } = targetOf(conninfo);
  if (hosts.length === 0) return 'Encode @, / and : in the user and the password as %40, %2F and %3A.';
  if (hosts.some(({ host }) => !/^[a-z0-9.:[\]_-]+$/i.test(host)))
    return 'Give the host before the first slash; a socket is for a command on the machine of Weir.';
  const query = new URLSearchParams(/\?(.*)$/s.exec(conninfo)?.[1] ?? '');
  const refused = [...query.keys()].find((name) => !URI_PARAMETERS.has(name));
  return refused === undefined ? null : `The parameter ${refused} is for a command on the machine of Weir only.`;
}

const URI_PARAMETERS: ReadonlySet<string> = new Set([
  'sslmode',
  'sslnegotiation',
  'channel_binding',
  'require_auth',
  'connect_timeout',
  'target_session_attrs',
  'load_balance_hosts',
  'keepalives',
  'keepalives_idle',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
]);

interface Target {
  /** Empty for a local socket and when the host is unknown. */
  hosts: { host: string; port: string }[];
  user?: string | undefined;
  dbname?: string | undefined;
}

/** `host:port/database`, for display; several hosts are separated by commas. Never contains a password. */
export function describeConninfo(conninfo: string): string {
  const { hosts, dbname } = targetOf(conninfo);
  const addresses = hosts.map(({ host, port }) => `${host || 'a local socket'}${port && `:${port}`}`);
  return `${addresses.join(',') || 'a local socket'}/${dbname ?? ''}`;
}

/** Option names that occur in libpq's messages; harmless whatever the password is. */
const optionNames = ['host', 'hostaddr', 'port', 'user', 'dbname', 'password', 'sslmode', 'connect_timeout', 'options'];

/**
 * Removes secrets from a message of libpq or the server. libpq quotes all or part of a connection string that it cannot parse,
 * including the password, so quoted text is removed unless it is known to be harmless.
 */
export function withoutSecrets(message: string, conninfo: string): string {
  const target = targetOf(conninfo);
  const names = target.hosts.flatMap(({ host, port }) => [host, port]);
  const known = new Set([...names, target.user, target.dbname, ...optionNames]);
  const harmless = (quoted: string) =>
    !quoted.includes('@') && (known.has(quoted) || /^\W?$|^\/|^[0-9a-f]*[.:][0-9a-f.:]+$/i.test(quoted));
  return message.trim().replace(/"([^"]*)"/g, (whole, quoted: string) => (harmless(quoted) ? whole : '"…"'));
}

/** Parses hosts, ports, user and database as far as possible. An @ in the path means that the password contains a slash. */
function targetOf(conninfo: string): Target {
  if (isUri(conninfo)) {
    // A URL has one host: each host of the list is parsed as if it were the only one. The user information ends at the last @.
    const [, start, list, rest] = /^(\w+:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/s.exec(conninfo)!;
    const uris = list!.split(',').map((host) => `${start}${host}${rest}`);
    if (!uris.every((uri) => URL.canParse(uri))) return { hosts: [] };
    const urls = uris.map((uri) => new URL(uri));
    const { username, pathname } = urls[0]!;
    if (pathname.includes('@')) return { hosts: [] };
    const decode = (part: string) => (/%(?![0-9a-f]{2})/i.test(part) ? part : decodeURIComponent(part));
    const hosts = urls.map(({ hostname, port }) => ({ host: decode(hostname), port }));
    return { hosts, user: decode(username) || undefined, dbname: decode(pathname.slice(1)) || undefined };
  }
  const word = (name: string) => new RegExp(`(?:^|\\s)${name}\\s*=\\s*'?([^'\\s]*)`).exec(conninfo)?.[1];
  const ports = word('port')?.split(',') ?? [''];
  // One port applies to all hosts.
  const hosts = (word('host') ?? '').split(',').map((host, i) => ({ host, port: ports[i] ?? ports.at(-1)! }));
  return { hosts, user: word('user'), dbname: word('dbname') };
}

function isUri(conninfo: string): boolean {
  return /^postgres(ql)?:\/\//.test(conninfo);
}

/**
 * Turns JIT compilation off on Weir's connections. Its statements are short, but over daily partitions Postgres estimates them as
 * expensive and compiles each one on every run. The activity of 40 agents with 40 webhooks each over 37 partitions (Postgres 15, a busy
 * machine, 10 alternating runs each): 2.0 to 4.6 s with JIT, 0.25 to 0.72 s without.
 *
 * JIT is turned off in two ways, because each has gaps. Every connection requests it at startup (weirConninfo). PgBouncer drops that
 * request if ignore_startup_parameters lists `options` (otherwise it rejects the connection), and the operator's own options replace
 * it. In addition it is set as the role's default in this database, which also applies to every new server connection of a pooler
 * (tested with PgBouncer 1.18 in transaction mode). A SET after connecting would reach only the server connection that the pooler has
 * assigned at that moment.
 */
const jitOff = '-c jit=off';

/** Sets the role's default unless it has one. If the role may not alter itself, only the startup option applies. Call in a transaction. */
export async function turnOffJit(query: (statement: { text: string }) => Promise<unknown>): Promise<void> {
  await query({
    text: `
      do $$
      begin
        if not exists (
          select from pg_db_role_setting s, unnest(s.setconfig) setting
          where s.setrole = (select oid from pg_roles where rolname = session_user) and setting like 'jit=%'
            and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        ) then
          execute format('alter role %I in database %I set jit = off', session_user, current_database());
        end if;
      exception when insufficient_privilege then null;
      end
      $$`,
  });
}

/** How long a closed libpq connection is protected from garbage collection. */
const KEPT_MS = 1_000;

/**
 * Keeps a reference to a connection that was just closed. The addon's poll handles are part of the object, and libuv accesses them once
 * more at the end of the turn. If the object was collected before that, the process aborted
 * (uv__finish_close: handle->flags & UV_HANDLE_CLOSING).
 */
export function outliveClose(connection: object): void {
  setTimeout((_kept: object) => {}, KEPT_MS, connection).unref();
}
