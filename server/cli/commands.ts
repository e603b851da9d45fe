/** All commands, in the order of `weir --help`. */
import type { Command } from 'commander';
import type { CommandIo } from './io.ts';

/** Adds arguments, options, subcommands and the action to a command. @param whole builds the program with every command */
export type Define = (command: Command, io: CommandIo, whole: () => Promise<Command>) => void;

export interface CommandEntry {
  name: string;
  description: string;
  /** Not shown in the help. */
  hidden?: true;
  /** Loads the module of the command. Only the command that runs is loaded: all together take 1 s of CPU time. */
  load: () => Promise<Define>;
}

export const commands: readonly CommandEntry[] = [
  {
    name: 'start',
    description: 'run the service',
    load: async () => (await import('./start.ts')).defineStart,
  },
  {
    name: 'migrate',
    description: 'migrate the database schema to this release',
    load: async () => (await import('./migrate.ts')).defineMigrate,
  },
  {
    name: 'webhook',
    description: 'create and manage webhooks',
    load: async () => (await import('./webhook.ts')).defineWebhook,
  },
  {
    name: 'agent',
    description: 'create and manage agents, the programs that claim deliveries',
    load: async () => (await import('./agent.ts')).defineAgent,
  },
  {
    name: 'filter',
    description: 'try filters of subscriptions',
    load: async () => (await import('./filter.ts')).defineFilter,
  },
  {
    name: 'token',
    description: 'create and manage API tokens of users',
    load: async () => (await import('./token.ts')).defineToken,
  },
  {
    name: 'audit',
    description: 'show and verify the audit log',
    load: async () => (await import('./audit.ts')).defineAudit,
  },
  {
    name: 'user',
    description: 'create and manage users',
    load: async () => (await import('./user.ts')).defineUser,
  },
  {
    name: 'event',
    description: 'show stored events, and deliver them to agents again',
    load: async () => (await import('./event.ts')).defineEvent,
  },
  {
    name: 'delivery',
    description: 'show deliveries, replay finished ones, and dismiss dead ones',
    load: async () => (await import('./delivery.ts')).defineDelivery,
  },
  {
    name: 'rejection',
    description: 'show rejections, and verify them again',
    load: async () => (await import('./rejection.ts')).defineRejection,
  },
  {
    name: 'alert',
    description: 'show alerts, and send a test alert',
    load: async () => (await import('./alert.ts')).defineAlert,
  },
  {
    name: 'history',
    description: 'show how many requests were accepted, rejected and limited, by hour or day (UTC)',
    load: async () => (await import('./history.ts')).defineHistory,
  },
  {
    name: 'job',
    description: 'show and cancel jobs, such as replays of many events',
    load: async () => (await import('./job.ts')).defineJob,
  },
  {
    name: 'scheme',
    description: 'show the signature schemes of senders',
    load: async () => (await import('./scheme.ts')).defineScheme,
  },
  {
    name: 'send',
    description: 'send signed webhook requests, respect Retry-After, and print statuses and latencies',
    load: async () => (await import('./send.ts')).defineSend,
  },
  {
    name: 'consume',
    description:
      'run as an agent: claim deliveries, print each as a line of JSON, run a command for it or forward it, and acknowledge it',
    load: async () => (await import('./consume.ts')).defineConsume,
  },
  {
    name: 'listen',
    description: 'for development: forward new events of webhooks to a local program, until Ctrl-C',
    load: async () => (await import('./listen.ts')).defineListen,
  },
  {
    name: 'mcp',
    description: 'serve an AI agent by the Model Context Protocol on standard input and output',
    load: async () => (await import('./mcp.ts')).defineMcp,
  },
  {
    name: 'bench',
    description:
      'measure how many signed requests a second Weir stores on this machine, for several numbers of processes, on a separate Weir and database',
    load: async () => (await import('./bench.ts')).defineBench,
  },
  {
    name: 'keys',
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
    description: 'write the database to a file (pg_dump custom format), while Weir serves',
    load: async () => (await import('./backup.ts')).defineBackup,
  },
  {
    name: 'restore',
    description: 'load a backup into an empty database, and compare it with what was backed up',
    load: async () => (await import('./backup.ts')).defineRestore,
  },
  {
    name: 'spool',
    description: 'show and drain spools, also those of another machine',
    load: async () => (await import('./spool.ts')).defineSpool,
  },
  {
    name: 'doctor',
    description: 'check settings, database, store, keys, origins and kernel, and print how to fix problems',
    load: async () => (await import('./doctor.ts')).defineDoctor,
  },
  {
    name: 'completion',
    description: 'print a script that completes commands and options in your shell',
    load: async () => (await import('./completion.ts')).defineCompletion,
  },
  {
    name: 'docs',
    description: 'generate the tables in README.md and .env.example',
    hidden: true,
    load: async () => (await import('./docs.ts')).defineDocs,
  },
];
