/** Ports for servers that are started for a while. */
import { createServer } from 'node:net';

/** Below the ports that the system gives to outgoing connections (32,768 and up): no connection of a neighbour takes one in between. */
const LOWEST = 11_000;
const COUNT = 10_000;

/** A port of 127.0.0.1 on which nothing listens; so is the one that stands `besides` above it, when that is given. */
export async function freePort({ besides = 0 } = {}): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if ((await isFree(port)) && (besides === 0 || (await isFree(port + besides)))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
