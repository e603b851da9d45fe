/** All commands, in the order of `weir --help`. */
import { clientCommands } from './client-commands.ts';
import type { CommandEntry } from './command/program.ts';
import { managementCommands } from './manage/commands.ts';

export const commands: readonly CommandEntry[] = [
  {
    name: 'start',
    description: 'run the service',
    load: async () => (await import('./local/start.ts')).defineStart,
  },
  {
    name: 'migrate',
    local: true,
    description: 'migrate the database schema to this release',
    load: async () => (await import('./local/migrate.ts')).defineMigrate,
  },
  {
    name: 'reload',
    local: true,
    description: 'read the settings again, and replace each process without a refused request',
    load: async () => (await import('./local/reload.ts')).defineReload,
  },
  {
    name: 'processes',
    local: true,
    description: 'show the processes that serve, and what they run; set their number',
    load: async () => (await import('./local/reload.ts')).defineProcesses,
  },
  ...managementCommands(async (io, database) => (await import('./manage/socket.ts')).openLocal(io, database), {
    event: async () => (await import('./local/event-files.ts')).defineEventFiles,
  }),
  {
    name: 'scheme',
    description: 'show the signature schemes of senders',
    load: async () => (await import('./local/scheme.ts')).defineScheme,
  },
  ...clientCommands,
  {
    name: 'bench',
    description:
      'measure how many signed requests a second Weir stores on this machine, for several numbers of processes, on a separate Weir and database',
    load: async () => (await import('./bench/bench.ts')).defineBench,
  },
  {
    name: 'keys',
    local: true,
    description: 'rotate SECRETS_KEY, and re-encrypt the stored secrets',
    load: async () => (await import('./local/keys.ts')).defineKeys,
  },
  {
    name: 'metrics',
    description: 'print a Grafana dashboard and Prometheus alert rules',
    load: async () => (await import('./local/metrics.ts')).defineMetrics,
  },
  {
    name: 'backup',
    local: true,
    description: 'write the database to a file (pg_dump custom format), while Weir serves',
    load: async () => (await import('./local/backup.ts')).defineBackup,
  },
  {
    name: 'restore',
    local: true,
    description: 'load a backup into an empty database, and compare it with what was backed up',
    load: async () => (await import('./local/backup.ts')).defineRestore,
  },
  {
    name: 'sql',
    local: true,
    description: 'run one statement of SQL on the database, which can only read unless --write is given',
    load: async () => (await import('./local/sql.ts')).defineSql,
  },
  {
    name: 'spool',
    local: true,
    description: 'show and drain spools, also those of another machine',
    load: async () => (await import('./local/spool.ts')).defineSpool,
  },
  {
    name: 'doctor',
    local: true,
    description: 'check settings, database, store, keys, origins and kernel, and print how to fix problems',
    load: async () => (await import('./local/doctor.ts')).defineDoctor,
  },
];
