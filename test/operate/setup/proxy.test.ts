/** The proxies of compose.scale.yaml and of the guide, with their configurations: which address of a client Weir gets. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { startTestApp } from '../../helpers/app.ts';
import { freePort } from '../../helpers/ports.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const { services } = parse(read('compose.scale.yaml'), { merge: true, logLevel: 'silent' });
const nothing = /:-(.+)\}$/.exec(services.proxy.environment.FRONT_PROXY)![1]!;

const lacks = (program: string) => spawnSync('which', [program]).status !== 0;
for (const program of ['haproxy', 'nginx'].filter(lacks))
  console.warn(`A test of the proxies is skipped: this machine lacks ${program}.`);

describe.skipIf(lacks('haproxy'))('through the proxy of compose.scale.yaml', () => {
  const app = shared(() => startTestApp({ TRUSTED_PROXIES: '127.0.0.0/8' }));
  const webhook = shared(() => app.addWebhook());

  /** Starts it before the app instead of before containers. Returns its port. */
  async function startProxy(frontProxy: string): Promise<number> {
    const port = await freePort();
    const configuration = read('containers/haproxy.cfg')
      .replace(/^resolvers.*?(?=^frontend)/ms, '')
      .replace('bind :8080', `bind 127.0.0.1:${port}`)
      .replace(/ resolvers docker init-addr none$/m, '')
      .replace(/^ {2}server-template.*$/m, `  server weir 127.0.0.1:${app.port}`);
    const file = join(temporaryDirectory(), 'haproxy.cfg');
    writeFileSync(file, configuration);
    const environment = { PATH: process.env.PATH, FRONT_PROXY: frontProxy };
    const proxy = spawn('haproxy', ['-db', '-f', file], { env: environment, stdio: 'ignore' });
    onTestFinished(() => void proxy.kill());
    const isReady = () => fetch(`http://127.0.0.1:${port}/readyz`).then(({ ok }) => ok);
    await until(() => isReady().catch(() => false));
    return port;
  }

  test.each([
    ['is that of its connection, whatever it claims', nothing, '127.0.0.1'],
    ['is what the proxy in front says', '10.0.0.0/8 127.0.0.1', '198.51.100.9'],
  ])('the address of a client %s', async (_, frontProxy, address) => {
    const port = await startProxy(frontProxy);
    const headers = { 'x-forwarded-for': '203.0.113.7, 198.51.100.9', forwarded: 'for=203.0.113.8' };
    const request = signedRequest({ secret: webhook.secret, headers });
    const answer = await fetch(`http://127.0.0.1:${port}${webhook.path}`, request);
    const { id } = (await answer.json()) as { id: string };
    const [event] = await app.sql('select host(source_ip) as ip from events where id = $1', id);
    expect(event).toEqual({ ip: address });
  });
});

test.skipIf(lacks('nginx'))(
  'the nginx of the guide starts, passes on no claimed address, and limits no webhook',
  async () => {
    const app = await ofTest(startTestApp({ TRUSTED_PROXIES: '127.0.0.1' }));
    const webhook = await app.addWebhook({ rate_limit_max: 6000 });
    const port = await freePort();
    const folder = temporaryDirectory();
    const printed = read('containers/nginx.conf');
    const site = printed
      .replace('listen 80;', `listen 127.0.0.1:${port};`)
      .replace('127.0.0.1:8080', `127.0.0.1:${app.port}`);
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    const file = join(folder, 'nginx.conf');
    writeFileSync(
      file,
      `daemon off; master_process off; error_log stderr; pid ${folder}/pid; events {} http { access_log off; ${places.join(' ')}\n${site}}`,
    );
    const proxy = spawn('nginx', ['-c', file], { stdio: 'ignore' });
    onTestFinished(() => void proxy.kill());
    await until(() =>
      fetch(`http://127.0.0.1:${port}/readyz`)
        .then(({ ok }) => ok)
        .catch(() => false),
    );
    const headers = { 'x-forwarded-for': '203.0.113.7', forwarded: 'for=203.0.113.8' };
    const request = signedRequest({ secret: webhook.secret, headers });
    const answers = await Promise.all(
      Array.from({ length: 150 }, () => fetch(`http://127.0.0.1:${port}${webhook.path}`, request)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    const stored = await app.sql('select distinct host(source_ip) as ip from events');
    expect(stored).toEqual([{ ip: '127.0.0.1' }]);
  },
);
