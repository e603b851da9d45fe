/** What `weir consume --forward` and `weir listen` share: options, and the run with its target. */
import type { Command } from 'commander';
import type { RunOptions } from '../../deliver/client/index.ts';
import { wholeNumber } from '../command/arguments.ts';
import { attemptLine, type LineOptions } from './lines.ts';
import { type ForwardingParts, runForwarding } from './run.ts';
import { openTarget } from './target.ts';

export interface ForwardOptions {
  forward: string;
  secret?: string;
  privateKey?: string;
  timeoutSeconds: number;
}

const TIMEOUT_SECONDS_MAX = 3_600;

/** Adds the options of ForwardOptions except `--forward`. */
export function withForwardOptions(command: Command): void {
  command
    .option(
      '--secret <secret>',
      "with --forward: sign again with this secret, by the webhook's scheme; the environment variable WEIR_SECRET keeps it out of the process list",
    )
    .option('--private-key <file>', 'the same for schemes with a public key: private key in PEM')
    .option(
      '--timeout-seconds <n>',
      'with --forward: time for a request to the target with its response',
      wholeNumber('--timeout-seconds', TIMEOUT_SECONDS_MAX),
      30,
    );
}

type ForwardRun = Omit<ForwardingParts, 'target' | 'attempted'> & {
  url: URL;
  timeoutSeconds: number;
  /** Prints a line with its line feed. */
  print: (line: string) => void;
  lines: LineOptions;
};

/** Opens the target, forwards until the end, and closes the connections. Rejects as Agent.run. */
export async function forwardDeliveries(
  { url, timeoutSeconds, print, lines, ...parts }: ForwardRun,
  options: Omit<RunOptions, 'signal' | 'counts'> & { concurrency: number },
): Promise<void> {
  const target = openTarget(url, { connectionsMax: options.concurrency, timeoutMs: timeoutSeconds * 1000 });
  try {
    const attempted: ForwardingParts['attempted'] = (attempt) => print(attemptLine(attempt, new Date(), lines));
    await runForwarding({ ...parts, target, attempted }, options);
  } finally {
    target.close();
  }
}
