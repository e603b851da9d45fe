/** Connection parameters that Weir adds to the operator's connection string. */
import { jitOff } from './jit.ts';

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
 * Adds Weir's parameters: the application name, and timeouts that detect a dead server within seconds.
 * @param serverSettings further libpq options, each as ` -c name=value`.
 */
export function weirConninfo(conninfo: string, applicationName: string, serverSettings = ''): string {
  return withParameters(conninfo, {
    application_name: applicationName,
    connect_timeout: '5',
    tcp_user_timeout: '10000',
    keepalives_idle: '10',
    client_encoding: 'UTF8',
    options: `-c timezone=UTC -c client_min_messages=warning ${jitOff}${serverSettings}`,
  });
}

interface Place {
  host?: string | undefined;
  port?: string | undefined;
  user?: string | undefined;
  dbname?: string | undefined;
}

/** `host:port/database`, for display. Never contains a password. */
export function describeConninfo(conninfo: string): string {
  const { host, port, dbname } = placeOf(conninfo);
  return `${host ?? 'a local socket'}${port ? `:${port}` : ''}/${dbname ?? ''}`;
}

/** Option names that occur in libpq's messages; harmless whatever the password is. */
const optionNames = ['host', 'hostaddr', 'port', 'user', 'dbname', 'password', 'sslmode', 'connect_timeout', 'options'];

/**
 * Removes secrets from a message of libpq or the server. libpq quotes all or part of a connection string that it cannot parse,
 * including the password, so quoted text is removed unless it is known to be harmless.
 */
export function withoutSecrets(message: string, conninfo: string): string {
  const place = placeOf(conninfo);
  const known = new Set([place.host, place.port, place.user, place.dbname, ...optionNames]);
  const harmless = (quoted: string) =>
    !quoted.includes('@') && (known.has(quoted) || /^\W?$|^\/|^[0-9a-f]*[.:][0-9a-f.:]+$/i.test(quoted));
  return message.trim().replace(/"([^"]*)"/g, (whole, quoted: string) => (harmless(quoted) ? whole : '"…"'));
}

/** Parses host, port, user and database as far as possible. An @ in the path means that the password contains a slash. */
function placeOf(conninfo: string): Place {
  if (isUri(conninfo)) {
    if (!URL.canParse(conninfo)) return {};
    const { hostname, port, username, pathname } = new URL(conninfo);
    if (pathname.includes('@')) return {};
    const decode = (part: string) => (/%(?![0-9a-f]{2})/i.test(part) ? part : decodeURIComponent(part)) || undefined;
    return { host: decode(hostname), port, user: decode(username), dbname: decode(pathname.slice(1)) };
  }
  const word = (name: string) => new RegExp(`(?:^|\\s)${name}\\s*=\\s*'?([^'\\s]*)`).exec(conninfo)?.[1];
  return { host: word('host'), port: word('port'), user: word('user'), dbname: word('dbname') };
}

function isUri(conninfo: string): boolean {
  return /^postgres(ql)?:\/\//.test(conninfo);
}
