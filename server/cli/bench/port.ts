/** Ports for temporary servers. */
import { createServer } from 'node:net';

/** The range is below the kernel's ephemeral ports (32,768 and up), so that no outgoing connection takes a port after the check. */
const LOWEST = 11_000;
const COUNT = 10_000;

/** Returns a port of 127.0.0.1 on which nothing listens. With `besides`, the port that many above it is free as well. */
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
