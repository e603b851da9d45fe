/** Parameters of Weir's own, added to the operator's connection string. */
import { jitOff } from './jit.ts';

/**
 * Adds libpq parameters unless the string names them already. Knows both of libpq's forms, the URI and `key=value` words.
 * @see https://www.postgresql.org/docs/current/libpq-connect.html
 */
export function withParameters(conninfo: string, parameters: Record<string, string>): string {
  const missing = Object.entries(parameters).filter(([name]) => !new RegExp(`(^|[\\s?&])${name}\\s*=`).test(conninfo));
  return append(conninfo, missing);
}

/** A connection that is only made to a server, and in a session, that takes writes: else libpq tries the next host, or fails. */
export function writableConninfo(conninfo: string): string {
  // Of a parameter given twice, libpq takes the last.
  return append(conninfo, [['target_session_attrs', 'read-write']]);
}

function append(conninfo: string, parameters: [name: string, value: string][]): string {
  if (parameters.length === 0) return conninfo;
  if (!isUri(conninfo)) return [conninfo, ...parameters.map(([name, value]) => `${name}='${value}'`)].join(' ');
  const query = parameters.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  return conninfo + (conninfo.includes('?') ? '&' : '?') + query;
}

/**
 * A connection that names itself, and that notices within seconds that the other machine is gone.
 * @param serverSettings more of libpq's options, each as ` -c name=value`.
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

/** `host:port/database` for people. Never holds a password. */
export function describeConninfo(conninfo: string): string {
  const { host, port, dbname } = placeOf(conninfo);
  return `${host ?? 'a local socket'}${port ? `:${port}` : ''}/${dbname ?? ''}`;
}

/** Options that libpq names in its messages; harmless whatever the password is. */
const optionNames = ['host', 'hostaddr', 'port', 'user', 'dbname', 'password', 'sslmode', 'connect_timeout', 'options'];

/**
 * A message of libpq or the server, fit to be shown: of a connection string that it cannot read libpq quotes a part or all,
 * password and all, so that nothing stays between quotes but what is known to be harmless.
 */
export function withoutSecrets(message: string, conninfo: string): string {
  const place = placeOf(conninfo);
  const known = new Set([place.host, place.port, place.user, place.dbname, ...optionNames]);
  const harmless = (quoted: string) =>
    !quoted.includes('@') && (known.has(quoted) || /^\W?$|^\/|^[0-9a-f]*[.:][0-9a-f.:]+$/i.test(quoted));
  return message.trim().replace(/"([^"]*)"/g, (whole, quoted: string) => (harmless(quoted) ? whole : '"…"'));
}

/** Where the string leads, as far as it can be read. An @ in the path is the rest of a password with a slash in it. */
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
