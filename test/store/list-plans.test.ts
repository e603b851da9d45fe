/** Statements that read few rows among many, and the index of each. */
import { expect, test } from 'vitest';
import type { Query } from '../../server/store/connect/pool.ts';
import { listAgents } from '../../server/store/queries/agents/agents.ts';
import { readNewDeadLetters } from '../../server/store/queries/alerts/condition-signs.ts';
import { readUndelivered } from '../../server/store/queries/alerts/undelivered.ts';
import { everyToken, listTokens } from '../../server/store/queries/users/tokens.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { shared } from '../helpers/shared.ts';

const fresh = shared(freshDatabase);

type Read = (database: { query: Query }) => Promise<unknown>;
const revoked = (of: boolean | null) => ({ revoked: of, contains: null });

test.each<[string, RegExp, Read]>([
  ['new dead letters', /_finished_at_idx on deliveries_\d{8}/, (database) => readNewDeadLetters(database, Date.now())],
  ['revoked agents with deliveries', /using agents_revoked on/, readUndelivered],
  ['revoked agents', /using agents_revoked on/, (database) => listAgents(database, revoked(true), null, 50)],
  ['active agents', /using agents_newest on/, (database) => listAgents(database, revoked(false), null, 50)],
  [
    'the newest tokens',
    /using api_tokens_newest on/,
    (database) => listTokens(database, everyToken, { agentId: null, before: null }, 50),
  ],
])('%s are read by an index', async (...[, index, read]) => {
  let plan = '';
  const query: Query = async ({ text, values = [] }) => {
    const rows = await fresh.database.query<{ 'QUERY PLAN': string }>({
      text: `explain ${text}`,
      values,
      plan: 'keyed',
    });
    plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    return [];
  };
  await read({ query });
  expect(plan).toMatch(index);
});
