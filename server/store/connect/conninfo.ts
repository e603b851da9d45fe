/**
 * Connections through libpq: parameters that Weir adds to the operator's connection string, their display, and what every connection needs.
 */
import { type ConninfoParameters, formatConninfo, parseConninfo } from '../../base/net/conninfo.ts';
import { OperatorError } from '../../model/fault.ts';

const CONNINFO_FIX = 'encode @, / and : in the user and the password of a URI as %40, %2F and %3A';

function read(conninfo: string): ConninfoParameters {
  const parameters = parseConninfo(conninfo);
  if (parameters !== null) return parameters;
  throw new OperatorError('the connection string of the database cannot be read', CONNINFO_FIX);
}

/** Adds the parameters that the string does not contain yet. */
export function withParameters(conninfo: string, parameters: Record<string, string>): string {
  return formatConninfo(new Map([...Object.entries(parameters), ...read(conninfo)]));
}

function replaced(conninfo: string, parameters: Record<string, string>): string {
  return formatConninfo(new Map([...read(conninfo), ...Object.entries(parameters)]));
}

/** Restricts the connection to a server and session that accept writes: otherwise libpq tries the next host, or fails. */
export function writableConninfo(conninfo: string): string {
  return replaced(conninfo, { target_session_attrs: 'read-write' });
}

/**
 * Adds Weir's parameters: the application name, timeouts that detect a dead server within seconds, and with several hosts the search for
 * the host that accepts writes.
 */
export function weirConninfo(conninfo: string, applicationName: string): string {
  return withParameters(findableConninfo(conninfo), {
    application_name: applicationName,
    tcp_user_timeout: '10000',
    keepalives_idle: '10',
    client_encoding: 'UTF8',
  });
}

/** Makes a schema of the database that of the sessions. For cells on Citus: their tables (shards) are otherwise hidden there. */
export function withSchema(conninfo: string, schema: string): string {
  const options = `-c citus.override_table_visibility=off -c search_path=${schema}`;
  return replaced(conninfo, { options: `${read(conninfo).get('options') ?? ''} ${options}`.trim() });
}

/** The same database for another role. */
export function asRole(conninfo: string, role: string): string {
  return replaced(conninfo, { user: role });
}

/** The same database on another server of its cluster. */
export function onServer(conninfo: string, { host, port }: { host: string; port: number }): string {
  const { hostaddr: _, ...others } = Object.fromEntries(read(conninfo));
  return formatConninfo(Object.entries({ ...others, host, port: String(port) }));
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
  const { password, ...others } = Object.fromEntries(read(conninfo));
  return { withoutPassword: formatConninfo(Object.entries(others)), password };
}

/**
 * Rebuilds a connection string for a cell, or says why it is refused. From another machine it must be a URI with a host, and name no file,
 * socket, service or option: libpq would read them on this machine.
 */
export function cellConninfo(text: string, isLocal: boolean): { conninfo: string } | { fault: string } {
  if (!isLocal && !/^postgres(ql)?:\/\//.test(text))
    return { fault: 'Give a URI: postgres://USER:PASSWORD@HOST:PORT/DATABASE.' };
  const parameters = parseConninfo(text);
  if (parameters === null) return { fault: `It cannot be read: ${CONNINFO_FIX}.` };
  if (isLocal) return { conninfo: formatConninfo(parameters) };
  if (!/^[a-z0-9.:_-]+(,[a-z0-9.:_-]+)*$/i.test(parameters.get('host') ?? ''))
    return { fault: 'Give the host before the first slash; a socket is for a command on the machine of Weir.' };
  const refused = [...parameters.keys()].find((name) => !REMOTE_PARAMETERS.has(name));
  if (refused !== undefined) return { fault: `The parameter ${refused} is for a command on the machine of Weir only.` };
  return { conninfo: formatConninfo(new Map([['password', ''], ...parameters, ['passfile', '/nonexistent']])) };
}

const REMOTE_PARAMETERS: ReadonlySet<string> = new Set([
  'host',
  'port',
  'user',
  'password',
  'dbname',
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

/** `host:port/database`, for display; several hosts are separated by commas. Never contains a password. */
export function describeConninfo(conninfo: string): string {
  const { hosts, dbname } = targetOf(conninfo);
  const addresses = hosts.map(({ host, port }) => {
    const name = host.includes(':') ? `[${host}]` : host;
    return `${name || 'a local socket'}${port && `:${port}`}`;
  });
  return `${addresses.join(',')}/${dbname ?? ''}`;
}

/** Option names that occur in libpq's messages; harmless whatever the password is. */
const optionNames = ['host', 'hostaddr', 'port', 'user', 'dbname', 'password', 'sslmode', 'connect_timeout', 'options'];

/**
 * Removes secrets from a message of libpq or the server, which may quote part of a connection string: quoted text stays only if it is
 * harmless.
 */
export function withoutSecrets(message: string, conninfo: string): string {
  const target = targetOf(conninfo);
  const names = target.hosts.flatMap(({ host, port }) => [host, port]);
  const known = new Set([...names, target.user, target.dbname, ...optionNames]);
  const harmless = (quoted: string) =>
    !quoted.includes('@') && (known.has(quoted) || /^\W?$|^\/|^[0-9a-f]*[.:][0-9a-f.:]+$/i.test(quoted));
  return message.trim().replace(/"([^"]*)"/g, (whole, quoted: string) => (harmless(quoted) ? whole : '"…"'));
}

/** Hosts, each with its port, user and database. An empty host: a local socket, or the string cannot be read. */
function targetOf(conninfo: string) {
  const parameters = parseConninfo(conninfo) ?? new Map<string, string>();
  const ports = parameters.get('port')?.split(',') ?? [''];
  // One port applies to all hosts.
  const hosts = (parameters.get('host') ?? '').split(',').map((host, i) => ({ host, port: ports[i] ?? ports.at(-1)! }));
  return { hosts, user: parameters.get('user'), dbname: parameters.get('dbname') };
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
