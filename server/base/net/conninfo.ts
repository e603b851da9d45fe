/**
 * Connection strings of Postgres. Weir parses each one here, and gives libpq only strings that it writes here. Otherwise two parsers could
 * read a text differently: Weir would check one server, and libpq would connect to another.
 */

/** Parameters of libpq by keyword. */
export type ConninfoParameters = Map<string, string>;

/**
 * Reads a connection string as libpq does: a URI or `key=value` words. Null: libpq would refuse the text, or would take an unencoded @ or / in
 * a password for the end of the user part.
 * @see https://www.postgresql.org/docs/current/libpq-connect.html
 */
export function parseConninfo(text: string): ConninfoParameters | null {
  const uri = /^postgres(?:ql)?:\/\/(.*)$/s.exec(text);
  const given = uri === null ? parseWords(text) : parseUri(uri[1]!);
  const isWritable = given?.every(([name, value]) => /^[a-z_]+$/.test(name) && !value.includes('\0'));
  return isWritable ? new Map(given) : null;
}

/** Writes `key='value'` words, which libpq and `parseConninfo` read in the same way. */
export function formatConninfo(parameters: Iterable<readonly [name: string, value: string]>): string {
  return Array.from(parameters, ([name, value]) => `${name}='${value.replace(/[\\']/g, '\\$&')}'`).join(' ');
}

type Given = [name: string, value: string][];

/** White space of C's `isspace`; JavaScript's \s has more. */
const word = /[ \t-\r]*([^= \t-\r]+)[ \t-\r]*=[ \t-\r]*(?:'((?:[^'\\]|\\.)*)'|(?!')((?:[^ \t-\r\\]|\\.)*))[ \t-\r]*/suy;

function parseWords(text: string): Given | null {
  const given: Given = [];
  for (let at = /^[ \t-\r]*/.exec(text)![0].length; at < text.length; at = word.lastIndex) {
    word.lastIndex = at;
    const [found, name, quoted, plain] = word.exec(text) ?? [];
    if (found === undefined) return null;
    given.push([name!, (quoted ?? plain!).replace(/\\(.)/gsu, '$1')]);
  }
  return given;
}

/** User part, hosts, database and parameters. The user part ends at the first @ unless a slash is before it. */
const uriParts = /^(?:([^@/]*)@)?([^@/?]*)(?:\/([^@?]*))?(?:\?(.*))?$/s;

function parseUri(text: string): Given | null {
  const [found, who = '', where = '', dbname = '', query = ''] = uriParts.exec(text) ?? [];
  if (found === undefined) return null;
  const hosts = where.split(',').map((host) => /^(?:\[([^\]]+)\]|([^:[\]]*))(?::(\d*))?$/.exec(host));
  if (hosts.includes(null)) return null;
  const [, user, password = ''] = /^([^:]*):?(.*)$/s.exec(who)!;
  const encoded = {
    user: user!,
    password,
    host: hosts.map((host) => host![1] ?? host![2]).join(','),
    port: hosts.map((host) => host![3] ?? '').join(','),
    dbname,
  };
  const pairs =
    query === ''
      ? []
      : query
          .replace(/&$/, '')
          .split('&')
          .map((pair) => pair.split('='));
  if (pairs.some(({ length }) => length !== 2)) return null;
  try {
    return [
      ...Object.entries(encoded).filter(([, value]) => value !== ''),
      ...(pairs as Given).map(([name, value]): [string, string] => [decodeURIComponent(name), value]),
    ].map(([name, value]) =>
      name === 'ssl' && value === 'true' ? ['sslmode', 'require'] : [name, decodeURIComponent(value)],
    );
  } catch {
    // An escape is malformed, or its bytes are not UTF-8.
    return null;
  }
}
