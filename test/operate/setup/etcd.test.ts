/** etcd of compose.failover.yaml, which Patroni trusts: only a client with the password reads and writes it. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';

const script = fileURLToPath(new URL('../../../containers/etcd.py', import.meta.url));
const lacking = ['etcd', 'python3'].some((name) => spawnSync('which', [name]).status !== 0);
if (lacking) console.warn('The test of etcd is skipped: this machine lacks etcd or python3.');

describe.skipIf(lacking)('etcd of compose.failover.yaml', () => {
  test('has a user with the password, and keeps what it holds', async () => {
    const [clients, peers] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
    const options = {
      name: 'weir',
      'data-dir': join(temporaryDirectory(), 'etcd'),
      'listen-client-urls': clients,
      'advertise-client-urls': clients,
      'listen-peer-urls': peers,
      'initial-advertise-peer-urls': peers,
      'initial-cluster': `weir=${peers}`,
    };
    const words = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
    const start = (program: string, first: string[]) => {
      const env = { PATH: process.env.PATH, ETCD_PASSWORD: 'secret' };
      const child = spawn(program, [...first, ...words], { env, stdio: 'ignore' });
      onTestFinished(() => void child.kill('SIGKILL'));
      return child;
    };
    const end = async (child: ChildProcess) => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    };
    const ask = async (path: string, body: object, token = '') => {
      const headers: Record<string, string> = token === '' ? {} : { authorization: token };
      const answer = await fetch(`${clients}/v3/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
      return {
        status: answer.status,
        document: (await answer.json()) as { token?: string; kvs?: { value: string }[] },
      };
    };
    const [key, value] = ['/service/weir/leader', 'one'].map((text) => Buffer.from(text).toString('base64'));
    const statusOf = (path: string, body: object) =>
      ask(path, body).then(
        ({ status }) => status,
        () => null,
      );

    const before = start('etcd', []);
    await until(async () => (await statusOf('kv/put', { key, value })) === 200);
    await end(before);

    // The second start finds the user.
    for (let starts = 0; starts < 2; starts++) {
      const etcd = start('python3', [script]);
      // Until the script is done, etcd may end between two requests.
      const read = async () => {
        const { token } = (await ask('auth/authenticate', { name: 'root', password: 'secret' })).document;
        return token && (await ask('kv/range', { key }, token)).document.kvs?.[0]?.value;
      };
      const kept = await until(() => read().catch(() => null));
      expect(kept).toBe(value);
      for (const [path, body] of [
        ['kv/range', { key }],
        ['kv/put', { key, value: key }],
        ['auth/authenticate', { name: 'root', password: 'x' }],
      ] as const)
        expect(await until(() => statusOf(path, body)), path).toBeGreaterThanOrEqual(400);
      await end(etcd);
    }
  });
});
