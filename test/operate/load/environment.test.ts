import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { freePort } from '../../../server/operate/load/environment.ts';

test('a port that another process was given, and does not listen on yet, is passed over', async () => {
  const port = await freePort();
  // What the call of another process does.
  const hold = (number: number) => {
    const socket = createSocket('udp4');
    return once(socket.bind({ port: number, address: '127.0.0.1', exclusive: true }), 'listening').then(() => socket);
  };
  await expect(hold(port)).rejects.toThrow('EADDRINUSE');
  const other = await hold(port + 1);
  expect(await freePort()).not.toBe(port + 1);
  other.close();
});
