import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { acquireLock } from '../../server/base/files/lock.ts';
import { HOUR_MS } from '../../server/base/time/durations.ts';
import { EmbeddedPostgresError } from '../../server/store/embedded/account.ts';
import { findBinaries } from '../../server/store/embedded/binaries.ts';
import { type EmbeddedPostgres, joinEmbeddedPostgres } from '../../server/store/embedded/join.ts';
import { childrenOf } from '../helpers/processes.ts';
import { builtScript } from '../helpers/script.ts';
import { until } from '../helpers/wait.ts';
import { kill } from '../helpers/weir.ts';

let dataDir: string;
let pgdata: string;
const members: EmbeddedPostgres[] = [];

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'weir-pg-'));
  // As root, Postgres runs as another user, who needs access.
  await chmod(dataDir, 0o711);
  pgdata = join(dataDir, 'postgres');
});

afterEach(async () => {
  for (const member of members.splice(0)) await member.leave();
});

afterAll(() => rm(dataDir, { recursive: true, force: true }));

async function joinIt({
  maxConnections = 20,
  joinSmaller = false,
  log = (_line: string) => {},
} = {}): Promise<EmbeddedPostgres> {
  const member = await joinEmbeddedPostgres({ dataDir, maxConnections, joinSmaller, log });
  members.push(member);
  return member;
}

describe('the embedded database', () => {
  test('is created and started by the first user, with a message', async () => {
    const lines: string[] = [];
    const member = await joinIt({ log: (line) => lines.push(line) });
    expect(member.started).toBe(true);
    expect(member.conninfo).toBe(`host='${pgdata}' port=5432 user=weir dbname=weir`);
    expect(lines).toEqual([`Creating the database in ${pgdata}`, `Starting Postgres in ${pgdata}`]);
    expect((await stat(pgdata)).mode & 0o777).toBe(0o700);
  });

  test('runs with settings that keep what is committed, and without a TCP port', async () => {
    await joinIt({ maxConnections: 33 });
    const settings = {
      listen_addresses: '',
      max_connections: '33',
      fsync: 'on',
      synchronous_commit: 'on',
      full_page_writes: 'on',
      data_checksums: 'on',
      server_encoding: 'UTF8',
      lc_collate: 'C',
      TimeZone: 'UTC',
      shared_buffers: '256MB',
    };
    const names = Object.keys(settings).join(',');
    const text = `select json_object_agg(name, current_setting(name)) as answer from unnest('{${names}}'::text[]) name`;
    expect(await ask(text)).toEqual(settings);
  });

  test('is joined with fewer connections than requested by a client that accepts fewer', async () => {
    await joinIt({ maxConnections: 25 });
    expect((await joinIt({ maxConnections: 50, joinSmaller: true })).started).toBe(false);
    expect(await ask('select current_setting($$max_connections$$) as answer')).toBe('25');
  });

  test('has a minimum of connections for a few commands', async () => {
    await joinIt({ maxConnections: 1 });
    expect(await ask('select current_setting($$max_connections$$) as answer')).toBe('20');
  });

  test('runs in a separate session, unreachable from this terminal', async () => {
    await joinIt();
    const pid = await postmasterPid();
    const [group, session] = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]!.split(' ').slice(2, 4);
    expect([group, session]).toEqual([String(pid), String(pid)]);
  });

  test('is started while the clock is set forward', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const clock = setInterval(() => vi.setSystemTime(Date.now() + HOUR_MS), 1);
    onTestFinished(() => {
      clearInterval(clock);
      vi.useRealTimers();
    });
    expect((await joinIt()).started).toBe(true);
  });

  test('is joined by later users and stopped by the last one', async () => {
    const first = await joinIt();
    const pid = await postmasterPid();
    const second = await joinIt();
    expect(second.started).toBe(false);
    await first.leave();
    await first.leave();
    expect(await ask('select 1 as answer')).toBe(1);
    await second.leave();
    await until(() => isGone(pid));
    await expect(ask('select 1 as answer')).rejects.toThrow();
  });

  test('is stopped by the last user while its helper processes get TERM, as from a service manager', async () => {
    // Processes of other test files in this process: their Postgres and their browser.
    const others = await childrenOf(process.pid);
    const signalled = new Set<number>();
    // A helper lives for a moment, so one look may come too late.
    while (signalled.size < 2) {
      const member = await joinIt();
      const pid = await postmasterPid();
      let leaving = true;
      const left = member.leave().finally(() => {
        leaving = false;
      });
      left.catch(() => {});
      const spared = new Set([...others, ...signalled, pid]);
      while (leaving && spared.size < others.length + 10) {
        for (const child of await childrenOf(process.pid)) {
          if (spared.has(child)) continue;
          kill(child, 'SIGTERM');
          signalled.add(child);
          spared.add(child);
        }
        await nextTurn();
      }
      await left;
      // A process that has ended exists until its parent has read its exit code.
      await until(() => isGone(pid));
    }
  });

  test('is started once by concurrent users', async () => {
    const together = await Promise.all([joinIt(), joinIt(), joinIt()]);
    expect(together.filter((member) => member.started)).toHaveLength(1);
  });

  test('survives kill -9 of a user, and the next user joins it', async () => {
    const child = await startUser();
    const pid = await postmasterPid();
    child.kill('SIGKILL');
    await once(child, 'close');
    expect(await ask('select 1 as answer')).toBe(1);
    const next = await joinIt();
    expect(next.started).toBe(false);
    await next.leave();
    await until(() => isGone(pid));
  });

  test('survives a Ctrl-C to the process group of the user that started it', async () => {
    const child = await startUser();
    process.kill(-child.pid!, 'SIGINT');
    await once(child, 'close');
    const next = await joinIt();
    expect(next.started).toBe(false);
  });

  test('recovers with its data after kill -9 of Postgres while its user runs', async () => {
    const before = await joinIt();
    await ask('create table if not exists kept (answer int)');
    await ask('insert into kept values (42)');
    process.kill(await postmasterPid(), 'SIGKILL');
    const after = await joinIt();
    expect(after.started).toBe(true);
    await before.leave();
    expect(await ask('select answer from kept')).toBe(42);
  });

  test('is started with as many connections as its user has, by one that needs fewer, after kill -9', async () => {
    const before = await joinIt({ maxConnections: 40 });
    process.kill(await postmasterPid(), 'SIGKILL');
    expect((await joinIt({ maxConnections: 20, joinSmaller: true })).started).toBe(true);
    await before.leave();
    expect(await ask('select current_setting($$max_connections$$) as answer')).toBe('40');
  });

  test.each(['another process of the same user', 'no process'])(
    'starts although the files of a killed server name %s',
    async (whose) => {
      const first = await joinIt();
      const files = await Promise.all(
        ['postmaster.pid', '.s.PGSQL.5432.lock'].map(async (name) => {
          const path = join(pgdata, name);
          return { path, text: await readFile(path, 'utf8') };
        }),
      );
      const { uid, gid } = await stat(pgdata);
      await first.leave();
      const stranger = spawn('sleep', ['60'], { uid, gid });
      onTestFinished(() => void stranger.kill('SIGKILL'));
      if (whose === 'no process') {
        stranger.kill('SIGKILL');
        await once(stranger, 'close');
      }
      for (const { path, text } of files) await writeFile(path, text.replace(/^\d+/, String(stranger.pid)));
      const next = await joinIt();
      expect(next.started).toBe(true);
      if (whose !== 'no process') expect(stranger.exitCode).toBeNull();
    },
  );

  test('is restarted for more connections when it has no other user, else refuses with the fix', async () => {
    const small = await joinIt({ maxConnections: 20 });
    await expect(joinIt({ maxConnections: 50 })).rejects.toThrow(
      /allows 20 connections, 50 are needed.*stop that one first/,
    );
    const child = await startUser();
    await small.leave();
    child.kill('SIGKILL');
    await once(child, 'close');
    const large = await joinIt({ maxConnections: 50 });
    expect(large.started).toBe(true);
    expect(await ask('select current_setting($$max_connections$$) as answer')).toBe('50');
  });

  test('reports the end of the log when it cannot start, and releases its locks', async () => {
    await (await joinIt()).leave();
    await appendFile(join(pgdata, 'postgresql.auto.conf'), "shared_buffers = 'plenty'\n");
    onTestFinished(async () => writeFile(join(pgdata, 'postgresql.auto.conf'), ''));
    await expect(joinIt()).rejects.toThrow(/did not start in .*postgres\.log:\n.*shared_buffers/s);
    await writeFile(join(pgdata, 'postgresql.auto.conf'), '');
    expect((await joinIt()).started).toBe(true);
  });

  test('waits for the holder of the start lock up to the limit, then names it', async () => {
    await (await joinIt()).leave();
    const lock = await acquireLock(join(dataDir, 'postgres.start.lock'), 'exclusive', 0);
    onTestFinished(() => lock!.release());
    const lines: string[] = [];
    const log = (line: string) => lines.push(line);
    const joining = joinEmbeddedPostgres({ dataDir, maxConnections: 20, lockWaitSeconds: 0.2, log });
    await expect(joining).rejects.toThrow(`held for 0.2 s, now by process ${process.pid} (user`);
    expect(lines).toEqual([expect.stringContaining(`Waiting: process ${process.pid} (user`)]);
  });

  test('denies other users access to a new DATA_DIR except to the database, and to its locks', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'weir-pg-'));
    onTestFinished(() => rm(parent, { recursive: true }));
    await chmod(parent, 0o711);
    const made = join(parent, 'data');
    const member = await joinEmbeddedPostgres({ dataDir: made, maxConnections: 20, log: () => {} });
    const modeOf = async (path: string) => (await stat(path)).mode & 0o777;
    const modes = [await modeOf(made), await modeOf(join(made, 'postgres'))];
    const locks = await Promise.all(
      ['postgres.start.lock', 'postgres.users.lock'].map((name) => modeOf(join(made, name))),
    );
    await member.leave();
    expect(modes).toEqual([process.getuid!() === 0 ? 0o711 : 0o700, 0o700]);
    expect(locks).toEqual([0o600, 0o600]);
  });

  test('is created again after an interrupted creation', async () => {
    const other = await mkdtemp(join(tmpdir(), 'weir-pg-'));
    onTestFinished(() => rm(other, { recursive: true }));
    await chmod(other, 0o711);
    await mkdir(join(other, 'postgres.making-x'));
    await writeFile(join(other, 'postgres.making-x/PG_VERSION'), '15\n');
    const member = await joinEmbeddedPostgres({ dataDir: other, maxConnections: 20, log: () => {} });
    await member.leave();
    expect(member.started).toBe(true);
    await expect(stat(join(other, 'postgres.making-x'))).rejects.toThrow('ENOENT');
  });
});

describe('the embedded database refuses', () => {
  test.each([
    {
      what: 'data of another major version',
      prepare: pretendMajor('14'),
      says: /created by Postgres 14.*pg_dump.*mv .*pg_restore/s,
    },
    {
      what: 'a directory that is not a database',
      prepare: pretendMajor(null),
      says: /is not a Postgres data directory; move it away/,
    },
    {
      what: 'a path too long for a socket',
      path: 'a'.repeat(80),
      says: /too long for a Unix socket; set DATA_DIR to a shorter path/,
    },
    { what: 'a path with a comma', path: 'a,b', says: /contains a comma; set DATA_DIR to a path without one/ },
    {
      what: 'a path that is a file',
      prepare: (path: string) => writeFile(path, ''),
      says: /^DATA_DIR .* cannot be created/,
    },
  ])('$what', async ({ prepare = async () => {}, path = 'data', says }) => {
    const parent = await mkdtemp(join(tmpdir(), 'weir-pg-'));
    onTestFinished(() => rm(parent, { recursive: true }));
    await chmod(parent, 0o711);
    await prepare(join(parent, path));
    const joining = joinEmbeddedPostgres({ dataDir: join(parent, path), maxConnections: 20, log: () => {} });
    await expect(joining).rejects.toThrow(EmbeddedPostgresError);
    await expect(joining).rejects.toThrow(says);
  });

  test.runIf(process.getuid!() === 0)('a directory that the account of Postgres cannot access, naming it', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'weir-pg-'));
    onTestFinished(() => rm(parent, { recursive: true }));
    const joining = joinEmbeddedPostgres({ dataDir: join(parent, 'data'), maxConnections: 20, log: () => {} });
    await expect(joining).rejects.toThrow(`cannot access ${parent}; run: chmod o+x ${parent}`);
  });

  test.each([
    ['darwin', 'arm64'],
    ['linux', 's390x'],
  ])('%s on %s, with the fix', async (platform, arch) => {
    await expect(findBinaries(platform, arch)).rejects.toThrow(
      `There is no embedded Postgres for ${platform} on ${arch}; set DATABASE_URL to a Postgres server`,
    );
  });
});

function pretendMajor(major: string | null) {
  return async (path: string): Promise<void> => {
    await mkdir(join(path, 'postgres'), { recursive: true });
    if (major !== null) await writeFile(join(path, 'postgres/PG_VERSION'), `${major}\n`);
  };
}

/** The column `answer` of the first row, over a new connection. */
async function ask(sql: string): Promise<unknown> {
  const client = new pg.Client({ host: pgdata, port: 5432, user: 'weir', database: 'weir' });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query(sql)).rows[0]?.answer;
  } finally {
    await client.end();
  }
}

async function postmasterPid(): Promise<number> {
  return Number.parseInt(await readFile(join(pgdata, 'postmaster.pid'), 'utf8'), 10);
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

/** Another Node process, leader of its own process group, that uses the same database until it is killed. */
async function startUser(): Promise<ChildProcess> {
  const script = await builtScript(
    `import { joinEmbeddedPostgres } from '#server/store/embedded/join.ts';
    await joinEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)}, maxConnections: 20, log: () => {} });
    console.log('joined');
    setInterval(() => {}, 1000);`,
  );
  const child = spawn(process.execPath, [script], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}
