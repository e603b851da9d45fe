/** Handles deliveries by sending them to a program, for `weir consume --forward` and `weir listen`. */
import { styleText } from 'node:util';
import type { Command } from 'commander';
import { jsonLine } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import { Retry } from '../../deliver/client/index.ts';
import { wholeNumber } from '../command/arguments.ts';
import type { Running } from './agent.ts';
import { TargetBreaker } from './breaker.ts';
import type { Signing } from './signing.ts';
import {
  FORWARD_METHOD,
  type Forwarded,
  type ForwardedDelivery,
  forwardRequest,
  type HttpTarget,
  openTarget,
} from './target.ts';

export interface ForwardOptions {
  forward: string;
  secret?: string;
  privateKey?: string;
  timeoutSeconds: number;
}

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
      wholeNumber(3_600),
      30,
    );
}

/** Opens the target of `--forward`. The handler sends deliveries to it and prints each attempt. @param names prints the webhook of each */
export function openForwarding(
  forward: URL,
  {
    timeoutSeconds,
    concurrency,
    once,
    json = false,
  }: { timeoutSeconds: number; concurrency: number; once?: boolean; json?: boolean },
  { signingOf, names }: Pick<ForwardParts, 'signingOf'> & { names: boolean },
  { io, progress, stop }: Running,
): { handler: Forward; close: () => void } {
  const target = openTarget(forward, { connectionsMax: concurrency, timeoutMs: timeoutSeconds * 1000 });
  // With --once a delivery does not wait until an unreachable target answers again.
  const breaker = once ? null : new TargetBreaker({ target, report: progress.report, stop });
  // Text has colours only on a terminal, unless NO_COLOR is set (no-color.org).
  const lines = { json, names, colour: io.stdout.isTTY === true && !io.environment.NO_COLOR };
  const attempted = (attempt: Attempted) => void progress.write(io.stdout, attemptLine(attempt, new Date(), lines));
  return { handler: forwarder({ target, breaker, signingOf, attempted }), close: target.close };
}

/** A longer Retry-After of the target is shortened to this. */
const DELAY_SECONDS_MAX = 3_600;
const LOCATION_CHARACTERS_MAX = 200;

interface ForwardParts {
  target: HttpTarget;
  /** Null: each delivery is sent, however many failed before it. */
  breaker: TargetBreaker | null;
  /** How the webhook of an event is signed. Rejects when that is unknown, or a key is missing. */
  signingOf: (webhookId: string) => Promise<Signing>;
  /** Called after each attempt; must not throw. */
  attempted: (attempt: Attempted) => void;
}

type Forward = (delivery: ForwardedDelivery, context: { signal: AbortSignal }) => Promise<void>;

/** The handler throws Retry unless the target answered 2xx. */
export function forwarder({ target, breaker, signingOf, attempted }: ForwardParts): Forward {
  return async (delivery, { signal }) => {
    await breaker?.enter(signal);
    const startMs = performance.now();
    const result = await send(delivery, signal);
    const problem = problemOf(result);
    const status = result.kind === 'answered' ? result.status : null;
    attempted({ delivery, status, problem, ms: performance.now() - startMs });
    if (status !== null && !isOutage(status)) breaker?.succeeded();
    // A request that this program stopped or did not send says nothing about the target.
    else if (signal.aborted || result.kind === 'unsigned') breaker?.undecided();
    else breaker?.failed(problem ?? '');
    if (problem !== null) throw new Retry(`${target.name}: ${problem}`, delayOf(result));
  };

  async function send(delivery: ForwardedDelivery, signal: AbortSignal): Promise<Result> {
    try {
      const signing = await signingOf(delivery.event.webhook_id);
      return await target.send(forwardRequest(delivery, signing, target.url, Date.now()), signal);
    } catch (error) {
      return { kind: 'unsigned', why: (error as Error).message };
    }
  }
}

type Result = Forwarded | { kind: 'unsigned'; why: string };

/** The target takes nothing at present. Another refusal, such as 400 or 404, concerns one event: the other events may be taken. */
function isOutage(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

function problemOf(result: Result): string | null {
  if (result.kind === 'unsigned') return `not signed: ${result.why}`;
  if (result.kind === 'failed') return result.name;
  const { status, location } = result;
  if (status >= 200 && status < 300) return null;
  if (status < 300 || status >= 400 || location === null) return String(status);
  return `${status} to ${location.slice(0, LOCATION_CHARACTERS_MAX)}, redirects are not followed`;
}

/** Without `delaySeconds` the server increases the delay with each attempt. */
function delayOf(result: Result): { delaySeconds?: number } {
  if (result.kind !== 'answered' || result.retryAfterMs === null) return {};
  return { delaySeconds: Math.min(DELAY_SECONDS_MAX, Math.ceil(result.retryAfterMs / 1000)) };
}

export interface Attempted {
  delivery: ForwardedDelivery;
  /** Null: no response. */
  status: number | null;
  /** What was wrong; null when the target answered 2xx. */
  problem: string | null;
  ms: number;
}

const TYPE_COLUMNS = 24;

interface LineOptions {
  json: boolean;
  colour: boolean;
  /** Whether the events of several webhooks are forwarded. */
  names: boolean;
}

/** Formats one attempt: time, method, type, bytes, milliseconds, result, the number of a later attempt, the webhook. Ends with a line feed. */
export function attemptLine(attempted: Attempted, at: Date, { json, colour, names }: LineOptions): string {
  const { delivery, problem, status, ms } = attempted;
  const { id: delivery_id, event, attempt } = delivery;
  const { id: event_id, webhook_id, event_type } = event;
  if (json) {
    const facts = { at, delivery_id, event_id, webhook_id, event_type, method: FORWARD_METHOD };
    return jsonLine({ ...facts, bytes: event.body.length, attempt, status, problem, ms: Math.round(ms) });
  }
  const result = problem ?? String(status);
  // Without validateStream, which since Node 22 examines process.stdout instead of the command's output.
  const inColour = (text: string) => styleText(problem === null ? 'green' : 'red', text, { validateStream: false });
  const parts = [
    at.toTimeString().slice(0, 8),
    FORWARD_METHOD,
    visibleLine(event_type ?? '-').padEnd(TYPE_COLUMNS),
    bytesText(event.body.length).padStart(9),
    `${ms.toFixed(0)} ms`.padStart(8),
    colour ? inColour(visibleLine(result)) : visibleLine(result),
  ];
  if (attempt > 1) parts.push(`(attempt ${attempt})`);
  if (names) parts.push(visibleLine(event.webhook_name));
  return `${parts.join('  ')}\n`;
}

function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
