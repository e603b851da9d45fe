/** `weir send`: sends signed webhook requests and reports the results. */
import { Command } from 'commander';
import { parseAddress, wholeNumber } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText } from './io.ts';
import { showSendProgress } from './progress.ts';
import { readPayloads, sign } from './send/payloads.ts';
import { openClient, runSend } from './send/run.ts';
import { describeSummary, SendTally } from './send/summary.ts';

interface SendOptions {
  secret?: string;
  count?: number;
  rate?: number;
  concurrency: number;
  githubExamples?: true;
  wait: boolean;
  json?: true;
  signatureHeader: string;
}

const COUNT_MAX = 1_000_000_000;
const RATE_MAX = 1_000_000;
const CONCURRENCY_MAX = 10_000;

/** Requests in flight get this long to finish after Ctrl-C. */
const INTERRUPT_GRACE_MS = 1_000;

/**
 * Builds the command. Fails with CommandError: exit code 2 for invalid arguments; exit code 1 when any request did not end
 * with a 2xx response, or when Ctrl-C ended the run early.
 */
export function sendCommand(io: CommandIo): Command {
  return new Command('send')
    .description('Send signed webhook requests, respect Retry-After, and print statuses and latencies.')
    .argument('<url>', 'URL of the webhook, as `weir webhook add` prints it')
    .argument('[files...]', 'payloads, sent byte for byte; - is standard input; default: a small JSON document')
    .option(
      '--secret <secret>',
      'secret of the webhook; the environment variable WEIR_SECRET keeps it out of the process list',
    )
    .option(
      '--count <n>',
      'requests to send, cycling through the payloads; default: each payload once',
      wholeNumber('--count', COUNT_MAX),
    )
    .option('--rate <r>', 'requests a second, at a constant rate; default: as fast as responses arrive', parseRate)
    .option('--concurrency <c>', 'concurrent requests', wholeNumber('--concurrency', CONCURRENCY_MAX), 16)
    .option('--github-examples', "send every example payload of GitHub's events")
    .option('--no-wait', 'count 429, 503 and lost connections instead of retrying')
    .option('--signature-header <name>', 'header that carries the signature', parseHeaderName, 'X-Hub-Signature-256')
    .option('--json', 'print the summary as one JSON document')
    .action((url: string, files: string[], options: SendOptions) => send(url, files, options, io));
}

async function send(address: string, files: string[], options: SendOptions, io: CommandIo): Promise<void> {
  const url = parseAddress(address);
  const secret = options.secret ?? io.environment.WEIR_SECRET ?? '';
  if (secret === '') throw new CommandError('The secret is empty; give --secret, or set WEIR_SECRET.', 2);
  const payloads = (await readPayloads(files, options.githubExamples === true, io)).map((payload) =>
    sign(payload, secret),
  );
  const job = {
    payloads,
    count: options.count ?? payloads.length,
    rate: options.rate ?? null,
    concurrency: options.concurrency,
    wait: options.wait,
    signatureHeader: options.signatureHeader,
  };

  const client = openClient(url, job.concurrency);
  const progress = showSendProgress(job.count, io.stderr);
  const tally = new SendTally();
  const stop = new AbortController();
  let cut: NodeJS.Timeout | undefined;
  // Registered once: a second Ctrl-C ends the process in the default way.
  const onInterrupt = () => {
    stop.abort();
    cut = setTimeout(client.close, INTERRUPT_GRACE_MS);
  };
  process.once('SIGINT', onInterrupt);
  const startMs = performance.now();
  try {
    await runSend(job, client.post, tally, progress, stop.signal);
  } finally {
    process.removeListener('SIGINT', onInterrupt);
    clearTimeout(cut);
    progress.stop();
    client.close();
  }

  const interrupted = tally.sent < job.count;
  const summary = tally.summary(performance.now() - startMs, interrupted);
  if (options.json === true) printJson(io, summary);
  else printText(io, describeSummary(summary, job.count));
  if (tally.notAccepted > 0)
    throw new CommandError(`${tally.notAccepted} of ${tally.sent} requests were not answered with a 2xx status.`);
  if (interrupted) throw new CommandError(`Stopped after ${tally.sent} of ${job.count} requests.`);
}

function parseRate(given: string): number {
  const value = /^\d*\.?\d+$/.test(given) ? Number(given) : 0;
  if (value > 0 && value <= RATE_MAX) return value;
  throw new CommandError(
    `--rate is ${JSON.stringify(given)}; allowed: a number above 0, up to ${RATE_MAX} requests a second.`,
    2,
  );
}

/** Parses a token as RFC 9110, 5.6.2 defines it. */
function parseHeaderName(given: string): string {
  if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(given)) return given;
  throw new CommandError(
    `--signature-header is ${JSON.stringify(given)}; allowed: a header name of letters, digits and hyphens.`,
    2,
  );
}
