/** A network between Weir and a database of the run's Postgres, which listens on a socket only: a TCP port that can fail. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { FreshDatabase } from './postgres.ts';

export interface Relay {
  /** URL of the database through this port. */
  url: string;
  /** Open connections. */
  readonly connections: number;
  /** Resets all connections (RST). New ones work. */
  reset(): void;
  /** Passes nothing on any more, on any connection, until `thaw`: what is sent in this time is lost. */
  freeze(): void;
  thaw(): void;
  close(): void;
}

/**
 * @param answersAfterMs what the server says in the first milliseconds of a connection waits until then
 * @param says changes what the server says
 */
export async function relayTo(
  { conninfo }: Pick<FreshDatabase, 'conninfo'>,
  answersAfterMs = 0,
  says = (bytes: Buffer) => bytes,
): Promise<Relay> {
  const word = (name: string) => new RegExp(`${name}='?([^' ]+)`).exec(conninfo)?.[1] ?? '';
  const path = `${word('host')}/.s.PGSQL.${word('port') || '5432'}`;
  const clients = new Set<Socket>();
  let frozen = false;
  const relay = createServer((client) => {
    clients.add(client);
    const server = connect(path);
    const pass = (from: Socket, to: Socket, change: (bytes: Buffer) => Buffer) =>
      from.on('data', (bytes) => !frozen && to.write(change(bytes)));
    pass(client, server, (bytes) => bytes);
    void delay(answersAfterMs).then(() => pass(server, client, says));
    const end = () => {
      clients.delete(client);
      client.destroy();
      server.destroy();
    };
    for (const one of [client, server]) one.on('error', end).on('close', end);
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  const { port } = relay.address() as AddressInfo;
  const password = word('password');
  const user = `${encodeURIComponent(word('user'))}${password === '' ? '' : `:${encodeURIComponent(password)}`}`;
  return {
    url: `postgres://${user}@127.0.0.1:${port}/${word('dbname')}?sslmode=disable`,
    get connections() {
      return clients.size;
    },
    reset() {
      for (const client of clients) client.resetAndDestroy();
    },
    freeze() {
      frozen = true;
    },
    thaw() {
      frozen = false;
    },
    close() {
      relay.close();
      for (const client of clients) client.destroy();
    },
  };
}
