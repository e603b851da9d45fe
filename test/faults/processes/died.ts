/** A process that dies is known to the operator afterwards: in the status, the issues and on the pages. */
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import type { TestApp } from '../../helpers/app.ts';
import type { Chain } from '../../helpers/chain.ts';
import { addPerson } from '../../helpers/people.ts';
import { until } from '../../helpers/wait.ts';
import { kill } from '../../helpers/weir.ts';

export function diedTests(chain: Chain): void {
  test('kill -9 of a process is reported with its reason; processes that Weir ends are not', async () => {
    const { weir } = chain;
    const url = `http://127.0.0.1:${weir.port}`;
    const person = await addPerson(
      { database: weir.database, url, settings: { PUBLIC_URL: url } } as TestApp,
      'operator',
    );
    const deaths = async () => (await person.api('GET', '/api/v1/status?wait_seconds=0')).body.process_deaths;
    const issues = async () => (await person.api('GET', '/api/v1/issues?kind=process_died')).body.items;

    // The first three processes end as planned: two by the rolling restart, one by TTOU.
    await chain.restart();
    weir.signal('SIGTTIN');
    await until(async () => (await weir.servingPids()).length === 3);
    weir.signal('SIGTTOU');
    await until(async () => (await weir.servingPids()).length === 2);
    expect([await deaths(), await issues()]).toEqual([{ total: 0, newest: [] }, []]);
    expect((await person.browse('GET', '/status')).text).not.toContain('Processes that died');

    const [pid] = await weir.servingPids();
    const killedMs = Date.now();
    kill(pid!, 'SIGKILL');
    const known = await until(async () => {
      const found = await deaths().catch(() => null);
      return found?.newest[0]?.recovered_ms > 0 && found;
    });
    expect(known).toEqual({
      total: 1,
      newest: [
        {
          at: expect.any(String),
          pid,
          reason: 'SIGKILL',
          ran_ms: expect.any(Number),
          recovered_ms: expect.any(Number),
        },
      ],
    });
    expect(Math.abs(Date.parse(known.newest[0].at) - killedMs)).toBeLessThan(5_000);
    const text = `1 process of machine ${hostname()} died within 60 minutes: SIGKILL.`;
    await until(async () => (await issues())[0]?.title === text);
    expect((await person.browse('GET', '/')).text).toContain(text.slice(0, -1));
    expect((await person.browse('GET', '/status')).text).toMatch(
      new RegExp(`Processes that died.*<td data-label="Process">${pid}</td>.*<td class="wrap">SIGKILL</td>`, 's'),
    );
  });
}
