/** A Postgres that accepts no writes for a while, by a setting or as a standby, and accepts them again. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { addAgent, type TestAgent } from '../../helpers/agents.ts';
import type { Chain } from '../../helpers/chain.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { until } from '../../helpers/wait.ts';
import { asApp, kill, readiness } from '../../helpers/weir.ts';
import { readOnly } from '../kinds.ts';
import type { underLoad } from '../under-load.ts';

export function readOnlyTests(chain: Chain, load: ReturnType<typeof underLoad>): void {
  describe('a Postgres that accepts no writes', () => {
    let agent: TestAgent;
    let person: TestPerson;

    beforeAll(async () => {
      const app = asApp(chain.weir);
      agent = await addAgent(app, []);
      person = await addPerson(app, 'operator');
    });

    const run = (text: string) => chain.weir.sql(text);
    /** Works in a read-only session too. */
    const change = (text: string) => run(`begin read write; ${text}; commit`);
    const cutSessions = () =>
      run(`select pg_terminate_backend(pid) from pg_stat_activity where application_name in ('weir', 'weir-copy')`);

    const ingest = () =>
      fetch(
        `http://127.0.0.1:${chain.weir.port}${chain.webhook.path}`,
        signedRequest({ secret: chain.webhook.secret, body: '{}' }),
      );
    const addToken = () => person.api('POST', '/api/v1/tokens', { name: 'a token' });

    /** Status and problem code of an event, a claim and a change through the API. */
    async function writes(): Promise<string[]> {
      const stored = await ingest();
      const answers = [
        { status: stored.status, body: (await stored.json()) as { code?: string } },
        await agent.post('claim', {}),
        await addToken(),
      ];
      return answers.map(({ status, body }) => `${status} ${body.code ?? ''}`.trim());
    }

    const refused = Array(3).fill('503 database_unavailable');
    const served = ['202', '200', '201'];
    const isServed = async () => isDeepStrictEqual(await writes(), served);
    const isRefused = async () => isDeepStrictEqual(await writes(), refused);
    const expectNoFailure = () => expect(chain.events('request_failed')).toEqual([]);

    load.test('read-only sessions are replaced: 503, few log lines, and recovery without a restart', {
      load: { lanes: 20, first: 100 },
      refusals: ['database_unavailable'],
      async make() {
        const beganMs = performance.now();
        await change('alter database weir set default_transaction_read_only = on');
        await cutSessions();
        return async () => {
          await change('alter database weir reset default_transaction_read_only');
          await until(isServed);
          const seconds = (performance.now() - beganMs) / 1_000;
          expect(chain.events('database_refused').length).toBeLessThanOrEqual(seconds + 1);
        };
      },
      async during() {
        await until(isRefused);
        expect((await readiness(chain.weir.port))?.status).toBe(503);
        expect(await writes()).toEqual(refused);
      },
      after: expectNoFailure,
    });

    load.test('sessions that become read-only under load are closed, and each log line counts omitted ones', {
      load: { lanes: 50, perSecondMax: Infinity, first: 200 },
      refusals: ['database_unavailable'],
      async make() {
        const undo = await readOnly(chain.weir.database);
        await until(isRefused);
        return () => undo().then(() => until(isServed));
      },
      async after() {
        // At most one line a second, so the first of this test may wait for it, and count what it leaves out.
        const line = await until(() => chain.events('database_refused')[0]);
        expect(line).toMatchObject({ sql_state: '25006', left_out: expect.any(Number) });
        expectNoFailure();
      },
    });

    test('a server that returns as a standby accepts no writes until it is promoted', async () => {
      const standby = async () => (await chain.weir.sql<{ is: boolean }>('select pg_is_in_recovery() as is'))[0]!;
      await writeFile(join(chain.weir.dataDir, 'postgres', 'standby.signal'), '');
      kill((await postgresPids(chain.weir.dataDir))!.postmaster, 'SIGINT');
      await until(async () => (await standby().catch(() => null))?.is);
      await until(isRefused);
      expect((await readiness(chain.weir.port))?.checks.database).toBe('failing');
      await run('select pg_promote()');
      await until(isServed);
      await until(async () => (await readiness(chain.weir.port))?.status === 200);
      expectNoFailure();
    });
  });
}
