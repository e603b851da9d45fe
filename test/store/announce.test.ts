import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { APPLIED_CHANNEL, Changes, LISTENER_NAME } from '../../server/store/connect/listen.ts';
import { type DatabasePool, LISTENING_MAX, openDatabase } from '../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../server/store/connect/unavailable.ts';
import { fakeTimers } from '../helpers/clock.ts';
import { emptyDatabase } from '../helpers/postgres.ts';
import { type Relay, relayTo } from '../helpers/relay.ts';
import { shared } from '../helpers/shared.ts';
import { gate, until } from '../helpers/wait.ts';

const fresh = shared(emptyDatabase);
let relay: Relay;
let database: DatabasePool;
let changes: Changes;

const open = (conninfo: string, applicationName = 'announce-test') =>
  openDatabase(conninfo, { connectionsMax: 1, applicationName, onError: () => {} });
const nothing = async () => {};
const controlTimers = () => {
  fakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
};

beforeEach(async () => {
  relay = await relayTo(fresh);
  database = open(relay.url);
  changes = new Changes(database);
  return async () => {
    relay.close();
    await database.close();
  };
});

describe('a change is not made, and the database is reported as unavailable,', () => {
  /** @param meanwhile what happens once the change was asked for */
  const refused = async (meanwhile: () => unknown = () => {}, on = changes) => {
    let made = false;
    const changing = on.announced('webhook:x', async () => {
      made = true;
    });
    const rejected = expect(changing).rejects.toMatchObject({ constructor: DatabaseUnavailable, code: undefined });
    await meanwhile();
    await rejected;
    expect(made).toBe(false);
  };
  const forTenSeconds = () => vi.advanceTimersByTimeAsync(10_000);

  test('when its connection cannot be made', async () => {
    await refused(nothing, new Changes(open('host=/nowhere dbname=weir')));
  });

  test('when its connection is reset before it listens, as often as that happens', async () => {
    for (let i = 0; i <= LISTENING_MAX; i++) {
      await changes.announced('webhook:x', nothing);
      relay.freeze();
      // The statement has been sent: the frozen relay does not pass it on.
      await refused(() => delay(0).then(relay.reset));
      relay.thaw();
    }
    expect(await changes.announced('webhook:x', async () => 'made')).toBe('made');
  });

  test('when the server does not answer in time', async () => {
    await changes.announced('webhook:x', nothing);
    relay.freeze();
    controlTimers();
    await refused(forTenSeconds);
  });

  test('when too many others run for too long', async () => {
    let running = 0;
    const { opened: ended, open: end } = gate();
    const others = Array.from({ length: LISTENING_MAX }, () =>
      changes.announced('webhook:x', () => {
        running++;
        return ended;
      }),
    );
    await until(() => running === LISTENING_MAX);
    controlTimers();
    await refused(forTenSeconds);
    end();
    await Promise.all(others);
  });
});

test('a change whose connection is reset while it is made is made', async () => {
  const change = changes.announced('webhook:x', async () => {
    const before = relay.connections;
    relay.reset();
    await until(() => relay.connections < before);
    return 'made';
  });
  expect(await change).toBe('made');
  await until(() => changes.announced('webhook:x', async () => true).catch(() => false));
});

test('a change takes no connection of the pool, and the next one uses its connection again', async () => {
  for (let i = 0; i < 3; i++)
    await changes.announced('webhook:x', () => database.transaction((query) => query({ text: 'select 1' })));
  expect(relay.connections).toBe(2);
});

test('a change waits until every listener confirms it, and no earlier or other one', async () => {
  const listeners = [open(fresh.conninfo, LISTENER_NAME), open(fresh.conninfo, LISTENER_NAME)];
  const confirm = (listener: DatabasePool, payload: string) =>
    listener.query({ text: 'select pg_notify($1, $2)', values: [APPLIED_CHANNEL, payload] });
  controlTimers();
  onTestFinished(async () => void (await Promise.all(listeners.map((listener) => listener.close()))));
  // The connection stays open, and gets the notifications of another process in between.
  await changes.announced('webhook:x', nothing, () => false);
  for (const listener of listeners) await confirm(listener, 'webhook:x');
  let made = false;
  let confirmed = false;
  const change = changes
    .announced('webhook:x', async () => {
      made = true;
    })
    .then(() => {
      confirmed = true;
    });
  await until(() => made);
  await confirm(listeners[0]!, 'webhook:x');
  await confirm(listeners[1]!, 'webhook:y');
  expect(confirmed).toBe(false);
  await confirm(listeners[1]!, 'webhook:x');
  await change;
});
