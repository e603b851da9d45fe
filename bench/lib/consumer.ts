/** Consumer processes of `peers`: bench/peers/consume.ts, with one question at a time. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { CommandError } from '../../server/base/command/io.ts';
import type { Answer, Request } from '../peers/consume.ts';
import type { QueueName } from '../peers/queues/open.ts';
import type { QueueOrder } from '../peers/queues/queue.ts';
import { peerFile } from './paths.ts';

export interface Consumer {
  pid: number;
  /** Rejects with CommandError when the process has ended. */
  ask(request: Request): Promise<Answer>;
  /** Ends it at once, with its leases. */
  stop(): Promise<void>;
}

/** Starts a process and waits until it is connected to its store. Rejects with CommandError. */
export async function startConsumer(name: QueueName, order: QueueOrder, signal: AbortSignal): Promise<Consumer> {
  const child = fork(peerFile('consume'), [JSON.stringify({ name, order })], {
    env: { ...process.env, NODE_ENV: 'production' },
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const ended = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  const kill = () => void child.kill('SIGKILL');
  signal.addEventListener('abort', kill, { once: true });
  child.once('exit', () => signal.removeEventListener('abort', kill));
  await messageOf(child, ended, name);
  const ask = async (request: Request) => {
    child.send(request);
    return (await messageOf(child, ended, name)) as Answer;
  };
  return { pid: child.pid!, ask, stop };
}

async function messageOf(child: ChildProcess, ended: Promise<unknown>, name: string): Promise<unknown> {
  const gone = ended.then(() => {
    throw new CommandError(`a consumer of ${name} ended`);
  });
  const [message] = (await Promise.race([once(child, 'message'), gone])) as [unknown];
  return message;
}
