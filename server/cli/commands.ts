/** All commands, in the order of `weir --help`. */
import { clientCommands } from './client-commands.ts';
import { managementCommands } from './manage/commands.ts';
import type { CommandEntry } from './program.ts';

export const commands: readonly CommandEntry[] = [
  {
    name: 'start',
    description: 'run the service',
    load: async () => (await import('./start.ts')).defineStart,
  },
  {
    name: 'migrate',
    local: true,
    description: 'migrate the database schema to this release',
    load: async () => (await import('./migrate.ts')).defineMigrate,
  },
  ...managementCommands(async (io) => (await import('./manage/local.ts')).openLocal(io), {
    event: async () => (await import('./event-files.ts')).defineEventFiles,
  }),
  {
    name: 'scheme',
    description: 'show the signature schemes of senders',
    load: async () => (await import('./scheme.ts')).defineScheme,
  },
  ...clientCommands,
  {
    name: 'bench',
    description:
      'measure how many signed requests a second Weir stores on this machine, for several numbers of processes, on a separate Weir and database',
    load: async () => (await import('./bench.ts')).defineBench,
  },
  {
    name: 'keys',
    local: true,
    description: 'rotate SECRETS_KEY, and re-encrypt the stored secrets',
    load: async () => (await import('./keys.ts')).defineKeys,
  },
  {
    name: 'metrics',
    description: 'print a Grafana dashboard and Prometheus alert rules',
    load: async () => (await import('./metrics.ts')).defineMetrics,
  },
  {
    name: 'backup',
    local: true,
    description: 'write the database to a file (pg_dump custom format), while Weir serves',
    load: async () => (await import('./backup.ts')).defineBackup,
  },
  {
    name: 'restore',
    local: true,
    description: 'load a backup into an empty database, and compare it with what was backed up',
    load: async () => (await import('./backup.ts')).defineRestore,
  },
  {
    name: 'spool',
    local: true,
    description: 'show and drain spools, also those of another machine',
    load: async () => (await import('./spool.ts')).defineSpool,
  },
  {
    name: 'doctor',
    local: true,
    description: 'check settings, database, store, keys, origins and kernel, and print how to fix problems',
    load: async () => (await import('./doctor.ts')).defineDoctor,
  },
  {
    name: 'docs',
    description: 'generate the tables in the guides and .env.example',
    hidden: true,
    load: async () => (await import('./docs.ts')).defineDocs,
  },
];
