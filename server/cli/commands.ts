/** All commands, in the order of `weir --help`. */
import { clientCommands } from './client-commands.ts';
import { type CommandEntry, entry } from './command/program.ts';
import { managementCommands } from './manage/commands.ts';

const local = (...given: Parameters<typeof entry>): CommandEntry => ({ ...entry(...given), local: true });

export const commands: readonly CommandEntry[] = [
  entry('start', 'run the service', () => import('./local/start.ts')),
  local('migrate', 'migrate the database schema to this release', () => import('./local/migrate.ts')),
  local(
    'reload',
    'read the settings again, and replace each process without a refused request',
    () => import('./local/reload.ts'),
  ),
  local('processes', 'show the processes that serve, and what they run; set their number', async () => ({
    define: (await import('./local/reload.ts')).defineProcesses,
  })),
  ...managementCommands(async (io, database) => (await import('./manage/socket.ts')).openLocal(io, database), {
    event: async () => (await import('./local/event-files.ts')).define,
  }),
  entry('scheme', 'show the signature schemes of senders', () => import('./local/scheme.ts')),
  ...clientCommands,
  entry(
    'bench',
    'measure the signed requests that Weir stores per second on this machine, for several numbers of processes, with a Weir and a database of their own',
    () => import('./bench/bench.ts'),
  ),
  local('keys', 'rotate SECRETS_KEY, and re-encrypt the stored secrets', () => import('./local/keys.ts')),
  entry('metrics', 'print a Grafana dashboard and Prometheus alert rules', () => import('./local/metrics.ts')),
  local(
    'backup',
    'write the database to a file (pg_dump custom format), while Weir serves',
    () => import('./local/backup.ts'),
  ),
  local('restore', 'load a backup into an empty database, and compare it with what was backed up', async () => ({
    define: (await import('./local/backup.ts')).defineRestore,
  })),
  local(
    'sql',
    'run one statement of SQL on the database, which can only read unless --write is given',
    () => import('./local/sql.ts'),
  ),
  local('spool', 'show and drain spools, also those of another machine', () => import('./local/spool.ts')),
  local(
    'doctor',
    'check settings, database, store, keys, origins and kernel, and print how to fix problems',
    () => import('./local/doctor.ts'),
  ),
];
