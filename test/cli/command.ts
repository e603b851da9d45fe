/** Runs `weir consume` or another command inside the test and collects its output. */
import { PassThrough, Readable } from 'node:stream';
import { Command, CommanderError } from 'commander';
import { CommandError, type CommandIo } from '../../server/base/command/io.ts';
import { define as defineConsume } from '../../server/cli/consume/consume.ts';

export interface Ended {
  exitCode: number;
  message: string;
  out: string;
  err: string;
}

export interface Running {
  ended: Promise<Ended>;
  out: () => string;
  err: () => string;
}

export interface World {
  directory: string;
  terminal?: boolean;
  stdin?: string;
  stdout?: NodeJS.WritableStream;
  environment?: Record<string, string>;
}

export const startConsume = (args: string[], world: World) => startCommand(defineConsume, args, world);

export function startCommand(
  define: (command: Command, io: CommandIo) => void,
  args: string[],
  { directory, terminal = false, stdin = '', stdout, environment = {} }: World,
): Running {
  const gathered = { out: '', err: '' };
  const gather = (name: 'out' | 'err') =>
    Object.assign(new PassThrough(), { isTTY: name === 'err' && terminal, columns: 200 }).on('data', (chunk) => {
      gathered[name] += chunk;
    });
  const io = {
    environment: { PATH: process.env.PATH, FROM_OUTSIDE: 'yes', ...environment },
    directory,
    stdin: Readable.from([stdin]),
    stdout: stdout ?? gather('out'),
    stderr: gather('err'),
  };
  const command = new Command();
  define(command, io);
  const ended = command
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .parseAsync(args, { from: 'user' })
    .then(
      () => null,
      (error: unknown) => {
        if (error instanceof CommandError) return error;
        if (error instanceof CommanderError) return { exitCode: 2, message: error.message };
        throw error;
      },
    )
    .then((failure) => ({ exitCode: failure?.exitCode ?? 0, message: failure?.message ?? '', ...gathered }));
  return { ended, out: () => gathered.out, err: () => gathered.err };
}
