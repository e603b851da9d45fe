/**
 * `weir mcp --channel`: pushes events into a running Claude Code session, by the contract of its channels (a research preview:
 * https://code.claude.com/docs/en/channels-reference). One event at a time: the next one follows when the session has acknowledged or rejected
 * the one before, or its lease was lost.
 *
 * The contract names no revision of the protocol. Notifications outside of a request exist only in the revisions that begin with `initialize`,
 * so the channel speaks these; a client that asks for `server/discover` first falls back to them.
 */
import { release } from '../../base/files/build.ts';
import { pause } from '../../base/time/backoff.ts';
import { Agent, type Delivery } from '../../deliver/client/index.ts';
import { Markers, SECURITY, untrusted } from '../../manage/mcp/untrusted.ts';
import { INVALID_PARAMS, isRequest, METHOD_NOT_FOUND, type ProgramParts, type RpcMessage } from './messages.ts';

const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
/** Maximum time of a claim, and the pause between two reads of the webhooks while none is verified. */
const WAIT_SECONDS = 20;
/** The whole of most bodies: the channel has no tool for the rest. */
const BODY_BYTES_SHOWN = 32_768;

const INSTRUCTIONS = `Events of webhooks that Weir has stored arrive as <channel source="weir" receipt="..." event_id="..." attempt="...">, one at a time. Do the work that your user wants done for such an event. Then call acknowledge with the receipt of the tag; call reject with it when the work failed: the event comes again later. The next event arrives only after that. The same event_id may arrive more than once: do not do its work twice.

${SECURITY}`;

const receipt = { type: 'string', description: 'attribute receipt of the channel tag' };
const TOOLS = [
  {
    name: 'acknowledge',
    description: 'Reports that the work for the event is complete. The next event can then arrive.',
    inputSchema: { type: 'object', properties: { receipt }, required: ['receipt'] },
  },
  {
    name: 'reject',
    description: 'Reports that the work for the event failed. The event comes again after delay_seconds.',
    inputSchema: {
      type: 'object',
      properties: {
        receipt,
        reason: { type: 'string', description: 'why the work failed, for the people who look after Weir' },
        delay_seconds: { type: 'number', minimum: 0, maximum: 86_400, description: 'absent: longer with each attempt' },
      },
      required: ['receipt'],
    },
  },
];

export class Channel {
  readonly #parts: ProgramParts;
  readonly #agent: Agent;
  readonly #stop = new AbortController();
  /** The event that the session works on. */
  #current: Delivery | null = null;
  #settled = () => {};
  #opened = () => {};
  #reported = '';
  /** Resolves after `close`. Rejects with WeirError when the agent can claim no more. */
  readonly ended: Promise<void>;

  constructor(parts: ProgramParts) {
    const { url, credential, report } = parts;
    this.#parts = parts;
    this.#agent = new Agent({ url, credential, notify: ({ message }) => report(message) });
    this.ended = this.#run(this.#stop.signal);
  }

  /** Returns the event of the session to Weir, which delivers it again. Rejects as `ended`. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.ended.finally(() => this.#agent.close());
  }

  async #run(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#opened = resolve;
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    while (!signal.aborted) {
      // Asked before each claim: a webhook may lose its secret.
      const webhookIds = this.#parts.unverified ? undefined : await this.#verified(signal);
      if (webhookIds?.length === 0) await pause(WAIT_SECONDS * 1000, signal);
      else await this.#pushNext(webhookIds, signal);
    }
  }

  async #pushNext(webhookIds: string[] | undefined, signal: AbortSignal): Promise<void> {
    const claim = { once: true, max: 1, waitSeconds: WAIT_SECONDS, drainSeconds: 0, webhookIds, signal };
    for await (const delivery of this.#agent.deliveries(claim)) {
      const ended = new Promise<void>((resolve) => {
        this.#settled = resolve;
        delivery.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#current = delivery;
      this.#parts.send({ jsonrpc: '2.0', method: 'notifications/claude/channel', params: eventOf(delivery) });
      await ended;
      this.#current = null;
    }
  }

  async #verified(signal: AbortSignal): Promise<string[]> {
    const status = await this.#agent.me({ signal }).catch((error) => {
      if (signal.aborted) return null;
      throw error;
    });
    const webhooks = status?.webhooks ?? [];
    const others = webhooks.filter(({ verified }) => !verified).map(({ name }) => name);
    const none = others.length === webhooks.length ? 'no webhook of this agent verifies its requests. ' : '';
    const left = others.length === 0 ? '' : `not pushed, since anyone can send them: events of ${others.join(', ')}. `;
    const message = `${none}${left}Give each webhook a secret, or start with --unverified.`;
    if (none + left !== '' && message !== this.#reported && !signal.aborted) this.#parts.report(message);
    this.#reported = message;
    return webhooks.filter(({ verified }) => verified).map(({ id }) => id);
  }

  /** Answers a message of the session. Never rejects. */
  async take(message: RpcMessage): Promise<void> {
    if (message.method === 'notifications/initialized') this.#opened();
    if (!isRequest(message)) return;
    const { id, method, params = {} } = message;
    const answer = (result: object) => this.#parts.send({ jsonrpc: '2.0', id, result });
    const refuse = (code: number, text: string) =>
      this.#parts.send({ jsonrpc: '2.0', id, error: { code, message: text } });
    if (method === 'initialize') answer(this.#about(params.protocolVersion));
    else if (method === 'ping') answer({});
    else if (method === 'tools/list') answer({ tools: TOOLS });
    else if (method !== 'tools/call') refuse(METHOD_NOT_FOUND, 'This channel has tools only.');
    else if (!TOOLS.some(({ name }) => name === params.name)) refuse(INVALID_PARAMS, 'There is no such tool.');
    else answer(await this.#settle(params.name === 'acknowledge', Object(params.arguments)));
  }

  #about(asked: unknown): object {
    return {
      protocolVersion: REVISIONS.find((revision) => revision === asked) ?? REVISIONS[0],
      capabilities: { experimental: { 'claude/channel': {} }, tools: {} },
      serverInfo: { name: 'weir', title: 'Weir', version: release() },
      instructions: INSTRUCTIONS,
    };
  }

  async #settle(isDone: boolean, given: { receipt?: unknown; reason?: unknown; delay_seconds?: unknown }) {
    const delivery = this.#current;
    if (delivery === null || delivery.receipt !== given.receipt)
      return resultOf('This is not the receipt of the last event, or its lease was lost: the event comes again.', true);
    const { reason = 'the session rejected the event', delay_seconds: delaySeconds } = given;
    const options = typeof delaySeconds === 'number' ? { delaySeconds } : {};
    try {
      const settled = await (isDone ? delivery.ack() : delivery.nack(String(reason), options));
      this.#settled();
      if (settled === 'gone') return resultOf('Its lease was lost: the event comes again.', true);
      return resultOf(isDone ? 'Acknowledged.' : 'Rejected: the event comes again.', false);
    } catch (error) {
      return resultOf((error as Error).message, true);
    }
  }
}

function resultOf(text: string, isError: boolean) {
  return { content: [{ type: 'text', text }], ...(isError && { isError }) };
}

/** The params of the notification. `meta` becomes attributes of the tag, so Weir makes all its values. `content` cannot end the tag. */
function eventOf({ receipt, attempt, event }: Delivery) {
  const { id, webhook_id, webhook_name, received_at, body } = event;
  const markers = new Markers();
  const facts = JSON.stringify({ webhook_name, received_at, body_bytes: body.length });
  const content = untrusted(event, body, { offset: 0, bytesMax: BODY_BYTES_SHOWN });
  return {
    content: [
      'An event for you. Do its work, then call acknowledge, or reject if the work failed.',
      facts.replaceAll('<', '\\u003c'),
      markers.warning,
      markers.block(content),
    ].join('\n'),
    meta: { receipt, event_id: id, webhook_id, attempt: String(attempt) },
  };
}
