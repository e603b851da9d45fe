/** Started by root, Weir serves as the user weir, or refuses to start: no failure of any kind makes it serve as root. */
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { Release } from '../../../server/operate/primary/release.ts';
import { findServingUser, type ServingUser, tryServingUser } from '../../../server/operate/primary/serving-user.ts';
import { lookUpUser } from '../../../server/store/embedded/account.ts';
import { freePort } from '../../helpers/ports.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { builtScript } from '../../helpers/script.ts';
import { settingsOf, someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { canMount, skippedNote } from '../../helpers/small-disk.ts';
import { makeDataDir, spawnWeir } from '../../helpers/weir.ts';

const root = resolve(import.meta.dirname, '../../..');
const isRoot = process.getuid!() === 0;

describe.runIf(isRoot)('started by root', () => {
  let user: ServingUser;
  const database = shared(freshDatabase);
  let trial: string;
  let dataDir: string;

  beforeAll(async () => {
    user = (await findServingUser({ SERVE_AS_ROOT: false }))!;
    dataDir = await makeDataDir();
    const release = new Release(join(root, 'dist/server/main.js'), dataDir, user);
    await release.renew();
    trial = join(dirname(release.entryFile), 'operate/process/trial.js');
  });

  const attempt = async (file: string, given: Record<string, string> = {}, stopping?: AbortSignal) => {
    const settings = settingsOf({ PORT: String(await freePort()), ...given });
    return tryServingUser(file, user, settings, database.conninfo, stopping);
  };
  /** A trial of the test. */
  const trialThat = (code: string) => {
    const folder = temporaryDirectory();
    chmodSync(folder, 0o755);
    writeFileSync(join(folder, 'trial.mjs'), code);
    return join(folder, 'trial.mjs');
  };

  test.each([
    ['is killed', "process.kill(process.pid, 'SIGKILL')", 'it ended with SIGKILL'],
    ['ends without a word', '', 'it ended with exit code 0'],
    ['cannot be loaded', "import 'nowhere';", "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'nowhere'"],
  ])('a trial that %s ends the start, with the reason', async (_, code, reason) => {
    const refused = attempt(trialThat(code));
    await expect(refused).rejects.toThrow(`the user weir cannot run Weir: ${reason}`);
    await expect(refused).rejects.toThrow('(SERVE_AS_ROOT=true makes the processes serve as root instead)');
  });

  test('a trial that is killed is repeated, twice at most', async () => {
    const kept = join(temporaryDirectory(), 'trials');
    writeFileSync(kept, '', { mode: 0o666 });
    chmodSync(kept, 0o666);
    chmodSync(dirname(kept), 0o755);
    const killedUntil = (number: number) =>
      trialThat(`
        import { appendFileSync, readFileSync } from 'node:fs';
        appendFileSync(${JSON.stringify(kept)}, '.');
        if (readFileSync(${JSON.stringify(kept)}).length < ${number}) process.kill(process.pid, 'SIGKILL');
        console.log('{"failed":null}');`);
    await attempt(killedUntil(3));
    expect(readFileSync(kept, 'utf8')).toBe('...');
    writeFileSync(kept, '');
    await expect(attempt(killedUntil(9))).rejects.toThrow('it ended with SIGKILL');
    expect(readFileSync(kept, 'utf8')).toBe('...');
  });

  test('a look-up of the user that is killed is repeated', async () => {
    const folder = temporaryDirectory();
    const id = join(folder, 'id');
    writeFileSync(
      id,
      `#!/bin/sh\n[ -e ${folder}/$1 ] || { touch ${folder}/$1; kill -9 $$; }\nexec /usr/bin/id "$@"\n`,
      {
        mode: 0o755,
      },
    );
    const path = process.env.PATH;
    process.env.PATH = `${folder}:${path}`;
    try {
      expect(await lookUpUser('root')).toEqual({ uid: 0, gid: 0, name: 'root' });
      expect(await lookUpUser('nowhere')).toBeNull();
    } finally {
      process.env.PATH = path;
    }
    expect(readdirSync(folder).sort()).toEqual(['-g', '-u', 'id']);
  });

  test('a trial that hangs ends when Weir is to end', async () => {
    const stopping = new AbortController();
    const trying = attempt(trialThat('setInterval(() => {}, 1_000)'), {}, stopping.signal);
    stopping.abort();
    await trying;
  });

  test('a database that weir cannot connect to is refused, without the password', async () => {
    const conninfo = `${database.conninfo} dbname=nowhere password=sesame`;
    const DATABASE_URL = 'postgres://weir:sesame@127.0.0.1/nowhere';
    const settings = settingsOf({ PORT: String(await freePort()), DATABASE_URL, SECRETS_KEY: someKey });
    const refused = tryServingUser(trial, user, settings, conninfo);
    await expect(refused).rejects.toThrow(/^the user weir cannot connect to the database: (?!.*sesame)/);
    await expect(refused).rejects.toThrow('let the user weir read the files that DATABASE_URL names, and connect');
  });

  test('what else keeps weir from serving is refused, each with its fix', async () => {
    const script = await builtScript(`
      import { tryServingUser } from '#server/operate/primary/serving-user.ts';
      const [, , trial, conninfo, port] = process.argv;
      const settings = { HOST: '0.0.0.0', PORT: Number(port), database: {} };
      await tryServingUser(trial, ${JSON.stringify({ ...user, env: {} })}, settings, conninfo).then(
        () => console.log('served'),
        ({ message }) => console.log(message),
      );`);
    const run = (words: string[], { env = {}, port = 0 } = {}) => {
      const [program, ...rest] = [...words, script, trial, database.conninfo, String(port)];
      const surroundings = { cwd: root, encoding: 'utf8', env: { ...process.env, ...env } } as const;
      const { stdout, stderr } = spawnSync(program!, rest, surroundings);
      expect(stderr).toBe('');
      return stdout;
    };
    const own = process.execPath;

    const file = join(temporaryDirectory(), 'authorities.pem');
    writeFileSync(file, '', { mode: 0o600 });
    chmodSync(dirname(file), 0o755);
    expect(run([own], { env: { SSL_CERT_FILE: file } })).toMatch(
      `the user weir cannot read ${file}, which SSL_CERT_FILE names; let the user weir read it`,
    );
    chmodSync(file, 0o644);
    expect(run([own], { env: { SSL_CERT_FILE: file } })).toBe('served\n');

    const node = join(temporaryDirectory(), 'node');
    copyFileSync(own, node);
    expect(run([node])).toMatch(
      `the user weir cannot run ${node}: spawn ${node} EACCES; run: chmod go+x ${dirname(node)} ${node}; or install`,
    );

    expect(run(['setpriv', '--bounding-set=-setuid,-setgid', own])).toMatch(
      'Weir cannot switch from root to the user weir: spawn EPERM; start Weir as the user weir',
    );

    if (!canMount) return;
    const limit = 'echo 1024 >/proc/sys/net/ipv4/ip_unprivileged_port_start && exec "$@"';
    const unshared = ['unshare', '--net', 'sh', '-c', limit, 'sh', own];
    expect(run(unshared, { port: 80 })).toMatch(
      /^the user weir cannot listen: PORT 80 needs privileges that this user does not have; choose a PORT above 1023 .*CAP_NET_BIND_SERVICE/,
    );
    expect(run(unshared, { port: 1024 })).toBe('served\n');
  });

  test.runIf(canMount)(
    `without a user weir the start is refused, with the command that adds it${skippedNote}`,
    async () => {
      const accounts = join(temporaryDirectory(), 'passwd');
      writeFileSync(accounts, readFileSync('/etc/passwd', 'utf8').replaceAll(/^weir:.*\n/gm, ''));
      const within = ['unshare', '--mount', 'sh', '-c', `mount --bind ${accounts} /etc/passwd && exec "$@"`, 'sh'];
      const weir = spawnWeir(
        {
          DATABASE_URL: database.conninfo,
          SECRETS_KEY: someKey,
          DATA_DIR: dataDir,
          PORT: await freePort(),
          METRICS_PORT: await freePort(),
        },
        { within },
      );
      expect(await weir.ended).toBe(1);
      expect(weir.stderr()).toMatch(
        /Started by root, Weir serves as the user weir, which does not exist; run: useradd --system --no-create-home/,
      );
      expect(weir.events('process_up')).toEqual([]);
    },
  );
});
