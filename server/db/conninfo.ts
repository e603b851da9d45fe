/** Parameters of Weir's own, added to the operator's connection string. */

/**
 * Adds libpq parameters unless the string names them already. Knows both of libpq's forms, the URI and `key=value` words.
 * @see https://www.postgresql.org/docs/current/libpq-connect.html
 */
export function withParameters(conninfo: string, parameters: Record<string, string>): string {
  const isUri = /^postgres(ql)?:\/\//.test(conninfo);
  const missing = Object.entries(parameters).filter(([name]) => !new RegExp(`(^|[\\s?&])${name}\\s*=`).test(conninfo));
  if (missing.length === 0) return conninfo;
  if (!isUri) return [conninfo, ...missing.map(([name, value]) => `${name}='${value}'`)].join(' ');
  const query = missing.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  return conninfo + (conninfo.includes('?') ? '&' : '?') + query;
}

/** A connection that names itself, and that notices within seconds that the other machine is gone. */
export function weirConninfo(conninfo: string, applicationName: string): string {
  return withParameters(conninfo, {
    application_name: applicationName,
    connect_timeout: '5',
    tcp_user_timeout: '10000',
    keepalives_idle: '10',
    client_encoding: 'UTF8',
    options: '-c timezone=UTC -c client_min_messages=warning',
  });
}

/** `host:port/database` for people; null when the string cannot be read. Never holds a password. */
export function describeConninfo(conninfo: string): string {
  try {
    const url = new URL(conninfo);
    return `${url.host || 'a local socket'}${url.pathname}`;
  } catch {
    const word = (name: string) => new RegExp(`(?:^|\\s)${name}\\s*=\\s*'?([^'\\s]*)`).exec(conninfo)?.[1];
    return `${word('host') ?? 'a local socket'}${word('port') ? `:${word('port')}` : ''}/${word('dbname') ?? ''}`;
  }
}
