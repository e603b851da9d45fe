import { expect, test } from 'vitest';
import { isOutage, sqlStateKind } from '../../../server/store/connect/sql-states.ts';

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
