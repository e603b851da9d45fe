/** Commands that need no database of their own: those of the client package, see client.ts. */
import type { CommandEntry } from './command/program.ts';

export const clientCommands: readonly CommandEntry[] = [
  {
    name: 'send',
    description: 'send signed webhook requests, respect Retry-After, and print statuses and latencies',
    load: async () => (await import('./send/send.ts')).defineSend,
  },
  {
    name: 'consume',
    description:
      'run as an agent: claim deliveries, print each as a line of JSON, run a command for it or forward it, and acknowledge it',
    load: async () => (await import('./consume/consume.ts')).defineConsume,
  },
  {
    name: 'listen',
    description:
      'for development: forward new events of webhooks to a local program, until Ctrl-C. A temporary agent receives them',
    load: async () => (await import('./consume/listen.ts')).defineListen,
  },
  {
    name: 'mcp',
    description: 'serve an AI agent by the Model Context Protocol on standard input and output',
    load: async () => (await import('./mcp/mcp.ts')).defineMcp,
  },
  {
    name: 'completion',
    description: 'print a script that completes commands and options in your shell',
    load: async () => (await import('./completion/completion.ts')).defineCompletion,
  },
];
