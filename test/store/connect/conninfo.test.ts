import { describe, expect, test } from 'vitest';
import { parseConninfo } from '../../../server/base/net/conninfo.ts';
import {
  describeConninfo,
  onServer,
  splitPassword,
  weirConninfo,
  withoutSecrets,
  withParameters,
  withSchema,
} from '../../../server/store/connect/conninfo.ts';

test.each([
  ['postgres://u:geheim@db.example:5433/weir', 'db.example:5433/weir'],
  ['postgresql:///weir', 'a local socket/weir'],
  ["host='/run/pg' port=5432 user=u password='geheim' dbname=weir", '/run/pg:5432/weir'],
  ['postgres://u:12/geheim@db/weir', 'a local socket/'],
  ['postgres://u:geheim@[db/weir', 'a local socket/'],
  ['postgres://u:geheim@a.example:5432,b.example:5433/weir', 'a.example:5432,b.example:5433/weir'],
  ['postgres://u:ge,he%40im@a.example,[::1]:5433/weir?sslmode=require', 'a.example,[::1]:5433/weir'],
  ['postgres://u:ge,he@im@a.example/weir', 'a local socket/'],
  ['postgres://good?sslmode=@evil.example/weir', 'evil.example/weir'],
  ["host=a.example password='x host=b' dbname=weir", 'a.example/weir'],
  ['postgres://u:geheim@a.example:eheim,b/weir', 'a local socket/'],
  ['host=a.example,b.example port=5433 password=geheim dbname=weir', 'a.example:5433,b.example:5433/weir'],
  ['host=a.example,b.example port=5432,5433 dbname=weir', 'a.example:5432,b.example:5433/weir'],
])('a connection string is described without its password: %s', (conninfo, description) => {
  expect(describeConninfo(conninfo)).toBe(description);
});

describe('a message of libpq is shown without possible passwords', () => {
  const uri = 'postgres://weir:geheim@db:5432/events';
  test.each([
    ['could not translate host name "eheim@db" to address', 'could not translate host name "…" to address'],
    [
      'end of string reached when looking for matching "]" in IPv6 host address in URI: "postgres://u:geheim@[db/x"',
      '',
    ],
    ['missing "=" after "geheim" in connection info string', 'missing "=" after "…" in connection info string'],
    ['invalid integer value "geheim" for connection option "port"', ''],
  ])('%s', (message, shown) => {
    expect(withoutSecrets(message, uri)).not.toContain('heim');
    if (shown !== '') expect(withoutSecrets(message, uri)).toBe(shown);
  });

  test.each([
    'connection to server at "db" (10.0.0.2), port 5432 failed: Connection refused',
    'connection to server on socket "/tmp/x/.s.PGSQL.5432" failed: No such file or directory',
    'FATAL:  password authentication failed for user "weir"',
    'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "weir", database "events", no encryption',
    'FATAL:  database "events" does not exist',
  ])('and keeps useful parts: %s', (message) => {
    expect(withoutSecrets(message, uri)).toBe(message);
  });
});

test.each(['postgres://a:5432,b:5433/weir', 'postgres://u:p@a,b/weir?sslmode=require', "host=a,b dbname='weir'"])(
  'with several hosts, the host that accepts writes is searched, and a dead host costs 2 seconds: %s',
  (conninfo) => {
    const given = weirConninfo(conninfo, 'weir');
    expect(given).toContain("target_session_attrs='read-write'");
    expect(given).toContain("connect_timeout='2'");
  },
);

test.each(['postgres://a:5432/weir', 'postgres://u:a,b@a/weir', 'host=/run/pg', 'postgres:///weir'])(
  'one host is connected to whatever it accepts, so that its state can be reported: %s',
  (conninfo) => {
    const given = weirConninfo(conninfo, 'weir');
    expect(given).not.toContain('target_session_attrs');
    expect(given).toContain("connect_timeout='5'");
  },
);

test('the parameters of the operator are kept', () => {
  const given = 'postgres://a,b/weir?target_session_attrs=any&connect_timeout=9';
  const parameters = Object.fromEntries(parseConninfo(weirConninfo(given, 'weir'))!);
  expect(parameters).toMatchObject({
    host: 'a,b',
    dbname: 'weir',
    target_session_attrs: 'any',
    connect_timeout: '9',
    application_name: 'weir',
  });
});

test.each([
  [
    'postgres://u:p@a,b:5433/weir?hostaddr=10.0.0.1&sslmode=require',
    "user='u' password='p' host='n.example' port='9700' dbname='weir' sslmode='require'",
  ],
  ["host='a b' user=u dbname=weir", "host='n.example' user='u' dbname='weir' port='9700'"],
])('another server of the cluster has the same parameters: %s', (conninfo, other) => {
  expect(onServer(conninfo, { host: 'n.example', port: 9700 })).toBe(other);
});

test.each([
  ['postgres://a/weir', ''],
  ['host=a', ''],
  ['postgres://a/weir?options=-c%20work_mem%3D8MB', '-c work_mem=8MB '],
])('the schema of a cell is set beside the options of the operator: %s', (conninfo, before) => {
  expect(parseConninfo(weirConninfo(withSchema(conninfo, 'weir_cell_1_node'), 'weir'))!.get('options')).toBe(
    `${before}-c citus.override_table_visibility=off -c search_path=weir_cell_1_node`,
  );
});

test('parameters are added unless they exist, also where their names are in a value', () => {
  expect(withParameters('postgres://db/weir?a=1', { a: '2', b: "x 'y" })).toBe(
    "a='1' b='x \\'y' host='db' dbname='weir'",
  );
  expect(withParameters("password='x options=y'", { options: '-c jit=off' })).toBe(
    "options='-c jit=off' password='x options=y'",
  );
});

test('the password is separated from a connection string', () => {
  const split = { withoutPassword: "user='u' host='db' dbname='weir'", password: 'ge/heim' };
  expect(splitPassword('postgres://u:ge%2Fheim@db/weir')).toEqual(split);
  expect(splitPassword("user=u host=db password = 'ge/heim' dbname=weir")).toEqual(split);
  expect(splitPassword('postgres://u@db/weir')).toEqual({ ...split, password: undefined });
});

test('a connection string that cannot be read is refused with what to do, without what it contains', () => {
  expect(() => weirConninfo('postgres://u:12/geheim@db/weir', 'weir')).toThrow(
    'the connection string of the database cannot be read; encode @, / and : in the user and the password of a URI as %40, %2F and %3A',
  );
});
