/** Commands that need no database of their own: those of the client package, see client.ts. */
import { type CommandEntry, entry } from './command/program.ts';

export const clientCommands: readonly CommandEntry[] = [
  entry(
    'send',
    'send signed webhook requests, respect Retry-After, and print statuses and latencies',
    () => import('./send/send.ts'),
  ),
  entry(
    'consume',
    'run as an agent: claim deliveries, print each as a line of JSON, run a command for it or forward it, and acknowledge it',
    () => import('./consume/consume.ts'),
  ),
  entry(
    'listen',
    'for development: forward new events of webhooks to a local program, until Ctrl-C. A temporary agent receives them',
    () => import('./consume/listen.ts'),
  ),
  entry(
    'mcp',
    'serve an AI agent by the Model Context Protocol on standard input and output',
    () => import('./mcp/mcp.ts'),
  ),
  entry(
    'completion',
    'print a script that completes commands and options in your shell',
    () => import('./completion/completion.ts'),
  ),
];
