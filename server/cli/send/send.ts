/** `weir send`: sends signed webhook requests and reports the results. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CommandError, type CommandIo, printJson, printMessage, printText, readGiven } from '../../base/command/io.ts';
import { isAsymmetric } from '../../model/signatures/keys.ts';
import { DEFAULT_SCHEME, definitionOf } from '../../model/signatures/presets.ts';
import { CannotSign } from '../../model/signatures/sign.ts';
import { HEADER_NAME } from '../../model/signatures/sources.ts';
import { parseAddress, wholeNumber } from '../command/arguments.ts';
import { openBar } from '../command/progress.ts';
import { untilSignal } from '../command/run-command.ts';
import { type Payload, readPayloads, type SignedPayload, signed } from './payloads.ts';
import { openClient, runSend, type SendWatcher } from './send-requests.ts';
import { describeSummary, SendTally } from './summary.ts';

interface SendOptions {
  secret?: string;
  count?: number;
  rate?: number;
  concurrency: number;
  githubExamples?: true;
  wait: boolean;
  json?: true;
  signatureHeader?: string;
  scheme?: string;
  privateKey?: string;
  unsigned?: true;
}

const RATE_MAX = 1_000_000;

/** Requests in flight get this long to finish after a signal. */
const INTERRUPT_GRACE_MS = 1_000;

/** `weir send`. Exit code 1 when any request did not end with a 2xx response, or when a signal ended the run early. */
export function define(command: Command, io: CommandIo): void {
  command
    .argument('<url>', 'URL of the webhook, as `weir webhook add` prints it')
    .argument('[files...]', 'payloads, sent byte for byte; - is standard input; default: a small JSON document')
    .option(
      '--secret <secret>',
      'secret of the webhook; the environment variable WEIR_SECRET keeps it out of the process list',
    )
    .option(
      '--count <n>',
      'requests to send, cycling through the payloads; default: each payload once',
      wholeNumber(1_000_000_000),
    )
    .option('--rate <r>', 'requests a second, at a constant rate; default: as fast as responses arrive', parseRate)
    .option('--concurrency <c>', 'concurrent requests', wholeNumber(10_000), 16)
    .option('--github-examples', "send every example payload of GitHub's events")
    .option('--no-wait', 'count 429, 502 to 504 and lost connections instead of retrying')
    .option('--signature-header <name>', 'header that carries the signature', parseHeaderName)
    .option('--scheme <name>', 'sign by this scheme of a sender, see `weir scheme list`; default: sha256')
    .option(
      '--private-key <file>',
      'file with the private key in PEM, or whsk_ and base64, for a scheme with a public key',
    )
    .addOption(
      new Option('--unsigned', 'send without a signature, to a webhook without a secret').conflicts([
        'secret',
        'signatureHeader',
        'scheme',
        'privateKey',
      ]),
    )
    .option('--json', 'print the summary as one JSON document')
    .action((url: string, files: string[], options: SendOptions) => send(url, files, options, io));
}

async function send(address: string, files: string[], options: SendOptions, io: CommandIo): Promise<void> {
  const url = parseAddress(address);
  const sign = await signer(url, options, io);
  const payloads = (await readPayloads(files, options.githubExamples === true, io)).map(sign);
  tryToSign(payloads);
  const job = {
    payloads,
    count: options.count ?? payloads.length,
    rate: options.rate ?? null,
    concurrency: options.concurrency,
    wait: options.wait,
  };

  const client = openClient(url, job.concurrency);
  const progress = showSendProgress(job.count, io.stderr);
  const tally = new SendTally();
  let cut: NodeJS.Timeout | undefined;
  const startMs = performance.now();
  await untilSignal((stop) => {
    stop.addEventListener('abort', () => {
      cut = setTimeout(client.close, INTERRUPT_GRACE_MS);
    });
    return runSend(job, client.post, tally, progress, stop);
  }).finally(() => {
    clearTimeout(cut);
    progress.stop();
    client.close();
  });

  const interrupted = tally.sent < job.count;
  const summary = tally.summary(performance.now() - startMs, interrupted);
  if (options.json === true) printJson(io, summary);
  else printText(io, describeSummary(summary, job.count));
  if (tally.notAccepted > 0)
    throw new CommandError(`${tally.notAccepted} of ${tally.sent} requests were not answered with a 2xx status.`);
  if (interrupted) throw new CommandError(`Stopped after ${tally.sent} of ${job.count} requests.`);
}

const SECRET_EMPTY = 'The secret is empty; give --secret, set WEIR_SECRET, or give --unsigned.';

async function signer(url: URL, options: SendOptions, io: CommandIo): Promise<(payload: Payload) => SignedPayload> {
  const { scheme = DEFAULT_SCHEME, signatureHeader = null } = options;
  if (options.unsigned === true)
    return (payload) => ({ ...payload, sign: () => ({ headers: {}, body: payload.body }) });
  const definition = definitionOf({
    signatureScheme: scheme,
    schemeDefinition: null,
    signatureHeader,
    // When a scheme takes either kind of key, the private key selects the definition like the public one.
    publicKey: options.privateKey ?? null,
  });
  if (definition === null)
    throw new CommandError(`No scheme has the name ${JSON.stringify(scheme)}; see: weir scheme list`, 2);
  if (scheme === 'token' && signatureHeader === null)
    throw new CommandError('The scheme token needs --signature-header, the header that carries the token.', 2);
  const isKeyPair = isAsymmetric(definition.algorithm);
  if (isKeyPair && options.privateKey === undefined)
    throw new CommandError(`The scheme ${scheme} needs --private-key, the private key of the sender.`, 2);
  const secret = options.secret ?? io.environment.WEIR_SECRET ?? '';
  if (!isKeyPair && secret === '') throw new CommandError(SECRET_EMPTY, 2);
  const key = Buffer.from(isKeyPair ? await readGiven(io, options.privateKey!) : secret);
  const isNamed = scheme === DEFAULT_SCHEME && signatureHeader !== null;
  const ofWebhook = isNamed ? { ...definition, header: signatureHeader } : definition;
  return (payload) => signed(payload, ofWebhook, key, url.href);
}

/** Signs each payload once, so that a wrong key or payload is reported before the first request. */
function tryToSign(payloads: readonly SignedPayload[]): void {
  try {
    for (const { sign } of payloads) sign();
  } catch (error) {
    if (error instanceof CannotSign) throw new CommandError(error.message, 2);
    throw error;
  }
}

function parseRate(given: string): number {
  const value = /^\d*\.?\d+$/.test(given) ? Number(given) : 0;
  if (value > 0 && value <= RATE_MAX) return value;
  throw new InvalidArgumentError(`Give a number above 0, up to ${RATE_MAX} requests a second.`);
}

function parseHeaderName(given: string): string {
  if (HEADER_NAME.test(given.toLowerCase())) return given;
  throw new InvalidArgumentError('Give a header name of letters, digits and hyphens.');
}

/** Shorter waits are not reported. */
const WAIT_SHOWN_MS = 1_000;

/**
 * A bar; in a pipe one line, about the first wait.
 * @param count number of requests to send
 */
function showSendProgress(count: number, stderr: CommandIo['stderr']): SendWatcher & { stop: () => void } {
  const bar = openBar('{bar} {value}/{total}, {duration_formatted}{note}', stderr);
  bar.start(count, 0, { note: '' });
  let isReported = stderr.isTTY === true;
  return {
    progress: (sent) => bar.update(sent, { note: '' }),
    waiting: (cause, afterMs) => {
      const note = afterMs >= WAIT_SHOWN_MS ? `${cause}: waiting ${Math.ceil(afterMs / 1000)} s` : '';
      bar.update({ note: note && `, ${note}` });
      if (isReported || note === '') return;
      isReported = true;
      printMessage({ stderr }, `${note} before the retry; --no-wait counts instead of waiting.\n`);
    },
    stop: () => bar.stop(),
  };
}
