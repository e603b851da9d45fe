/** The calls of `weir listen` to the management API. Messages never include any part of the token. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { CommandError } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import type { ApiClient } from '../../deliver/client/http.ts';
import type { ForwardedWebhook } from '../forward/signing.ts';

const ANSWER_TIMEOUT_MS = 30_000;
/** The removal happens while a person waits for the command to end; the server removes the agent otherwise. */
const REMOVAL_TIMEOUT_MS = 5_000;

interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path after `api/v1/`. */
  path: string;
  body?: object;
  timeoutMs?: number;
}

type Answered = { status: number; document: unknown };

export class ListenApi {
  readonly #client: ApiClient;
  readonly #token: string;

  constructor(client: ApiClient, token: string) {
    this.#client = client;
    this.#token = token;
  }

  /** Reads the webhooks. Rejects with CommandError. */
  async webhooks(ids: readonly string[]): Promise<ForwardedWebhook[]> {
    const found: ForwardedWebhook[] = [];
    for (const id of new Set(ids))
      found.push((await this.#expect(200, { method: 'GET', path: `webhooks/${id}` })) as ForwardedWebhook);
    return found;
  }

  /** Creates the temporary agent. Rejects with CommandError. */
  async addAgent(webhookIds: readonly string[]): Promise<{ id: string; credential: string }> {
    const name = `listen on ${hostname().slice(0, 100)}, ${randomBytes(4).toString('hex')}`;
    const body = { name, webhook_ids: webhookIds, temporary: true };
    return (await this.#expect(201, { method: 'POST', path: 'agents', body })) as { id: string; credential: string };
  }

  /** Subscribes the agent to the webhook with a filter. Rejects with CommandError. */
  async subscribe(agentId: string, webhookId: string, filter: string): Promise<void> {
    await this.#expect(200, { method: 'PUT', path: `agents/${agentId}/subscriptions/${webhookId}`, body: { filter } });
  }

  /** Removes the agent. Rejects with CommandError when the server did not confirm it in time. */
  async removeAgent(id: string): Promise<void> {
    const call: Call = { method: 'DELETE', path: `agents/${id}`, timeoutMs: REMOVAL_TIMEOUT_MS };
    const answer = await this.#send(call);
    // 404: a person has removed it, or it expired.
    if (typeof answer !== 'string' && (answer.status === 204 || answer.status === 404)) return;
    const why = typeof answer === 'string' ? answer : answer.status;
    throw new CommandError(
      `The temporary agent was not removed (${why}); Weir removes it an hour after its last request.`,
    );
  }

  async #expect(status: number, call: Call): Promise<unknown> {
    const { base, update } = this.#client;
    const answer = await this.#send(call);
    if (typeof answer === 'string') throw new CommandError(`${base} did not answer: ${answer}.`);
    if (answer.status === status && typeof answer.document === 'object' && answer.document !== null)
      return answer.document;
    const change = update(answer.status);
    throw new CommandError(`${refusal(base, call, answer)}${change === null ? '' : ` ${change}`}`);
  }

  /** Resolves with the name of the error if there was no answer. */
  async #send({ method, path, body, timeoutMs = ANSWER_TIMEOUT_MS }: Call): Promise<Answered | string> {
    const { signal } = new AbortController();
    const order = { method, path: `api/v1/${path}`, token: this.#token, timeoutMs, signal };
    const answer = await this.#client.send(body === undefined ? order : { ...order, body });
    return answer.kind === 'failed' ? answer.name : answer;
  }
}

const DETAIL_CHARACTERS_MAX = 300;

function refusal(base: string, { path }: Call, { status, document }: Answered): string {
  const { code, detail } = (document ?? {}) as { code?: unknown; detail?: unknown };
  const text = typeof detail === 'string' ? visibleLine(detail).slice(0, DETAIL_CHARACTERS_MAX) : '';
  switch (status) {
    case 401:
      return `${base} refused the API token: it expired or was revoked, or belongs to another Weir server.`;
    case 403:
      return `${base} refused the API token: ${text} weir listen creates an agent; create a token that may: weir token add --email E --name listen --role operator`;
    case 404:
      if (code === 'webhook_unknown') return `No webhook has the id ${path.split('/').at(-1)}.`;
      return `${base} has no api/v1/${path}; give the base URL of Weir's API.`;
    default:
      return `${base} answered api/v1/${path} with ${status}${text === '' ? '' : `: ${text}`}`;
  }
}
