import { expect, test } from 'vitest';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable, isOutage, isPassing, sqlStateKind } from '../../../server/store/connect/unavailable.ts';
import { unusable } from '../../../server/store/open.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf, someKey } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';

const at = (host: string) => `connection to server at "${host}", port 5432 failed: `;
const refused = `${at('10.0.0.1')}Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?`;

test.each([
  [refused, true],
  [
    'connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory\n\tIs the server running locally and accepting connections on that socket?',
    true,
  ],
  ['could not translate host name "db" to address: Temporary failure in name resolution', true],
  [`${at('10.0.0.1')}timeout expired`, true],
  [
    `${at('10.0.0.1')}server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.`,
    true,
  ],
  [`${at('10.0.0.1')}FATAL:  the database system is starting up`, true],
  [`${at('10.0.0.1')}FATAL:  sorry, too many clients already`, true],
  [`${refused}\n${at('10.0.0.2')}session is read-only`, true],
  [`${at('10.0.0.1')}FATAL:  password authentication failed for user "weir"`, false],
  [`${at('10.0.0.1')}FATAL:  database "weir" does not exist`, false],
  [
    `${at('10.0.0.1')}FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "weir", database "weir", no encryption`,
    false,
  ],
  [`${at('10.0.0.1')}fe_sendauth: no password supplied`, false],
  [`${at('10.0.0.1')}server does not support SSL, but SSL was required`, false],
  [`${refused}\n${at('10.0.0.2')}FATAL:  password authentication failed for user "weir"`, false],
  ['invalid connection option "sslmod"', false],
])('the message %j counts as an outage: %s', (message, passing) => {
  expect(isPassing(new DatabaseUnavailable(new Error(message)))).toBe(passing);
});

test('the SQLSTATE decides whether an error of a session counts as an outage', () => {
  const failed = (code: string) => new DatabaseUnavailable(Object.assign(new Error('any'), { code }));
  expect(['57P01', '25006', '42P01'].map((code) => isPassing(failed(code)))).toEqual([true, true, false]);
  expect(isPassing(new Error('Connection refused'))).toBe(false);
});

test('messages of the installed libpq count as outages or as faults', async () => {
  const fresh = await ofTest(freshDatabase());
  const failureAt = async (conninfo: string) => {
    const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'test' });
    const failure = await database.query({ text: 'select 1' }).catch((error: Error) => error);
    await database.close();
    return failure;
  };
  const passing = ['host=127.0.0.1 port=1', 'host=/nonexistent', 'host=127.0.0.1,127.0.0.1 port=1,2'];
  for (const place of passing)
    expect([place, isPassing(await failureAt(`${place} dbname=x user=x`))]).toEqual([place, true]);
  for (const conninfo of [`${fresh.conninfo} dbname=missing`, `${fresh.conninfo} user=missing`, 'host=a nonsense=1'])
    expect([conninfo, isPassing(await failureAt(conninfo))]).toEqual([conninfo, false]);
});

test.each([
  [{}, /^see .*postgres\.log$/],
  [{ DATABASE_URL: 'postgres://weir@10.0.0.1/weir', SECRETS_KEY: someKey }, /^check DATABASE_URL/],
])('a database that cannot be used: what to look at with %o', (given, fix) => {
  expect(unusable('host=10.0.0.1', new Error('no'), settingsOf(given)).fix).toMatch(fix);
});

test.each([
  ['08006', 'session_ended', true],
  ['08P01', 'session_ended', true],
  ['57P01', 'session_ended', true],
  ['57P02', 'session_ended', true],
  ['57P03', 'session_ended', true],
  ['25006', 'session_read_only', true],
  ['40P01', 'server_busy', true],
  ['53100', 'server_busy', true],
  ['53200', 'server_busy', true],
  ['53300', 'server_busy', true],
  ['57014', 'server_busy', true],
  ['58030', 'server_busy', true],
  ['23514', 'partition_missing', false],
  ['23505', 'data', false],
  ['22021', 'data', false],
  ['42601', undefined, false],
  ['', undefined, false],
])('the SQLSTATE %s means %s, an outage: %s', (sqlState, kind, outage) => {
  expect([sqlStateKind(sqlState), isOutage(sqlState)]).toEqual([kind, outage]);
});
