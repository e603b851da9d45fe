/** Webhooks as people manage them: every change is committed, announced, and waited for until the processes know. */
import { randomBytes, randomUUID } from 'node:crypto';
import { seal } from '../core/seal.ts';
import type { Changes } from '../db/announce.ts';
import type { Database } from '../db/pool.ts';
import {
  deleteWebhook,
  insertWebhook,
  listWebhooks,
  replaceSecret,
  setWebhookEnabled,
  type WebhookRecord,
} from '../db/queries/manage-webhooks.ts';
import type { Actor } from './actor.ts';
import { record } from './audit.ts';
import { checkName, InputError } from './input.ts';
import { subscribeAll } from './subscriptions.ts';

export interface NewWebhook {
  name: string;
  secret: string | null;
  /** RFC 9110 token, any case. */
  signatureHeader: string | null;
  /** RFC 9110 token, any case: a request that repeats its value is not stored again. */
  dedupeHeader: string | null;
  rateLimitMax: number | null;
  /** Agents that get its events from the first one on. */
  agentIds?: readonly string[];
}

export type Change<T> = { kind: 'done'; value: T } | { kind: 'unknown' };

type Query = Database['query'];

const fieldName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const SECRET_CHARACTERS_MAX = 1_000;

export interface WebhookParts {
  database: Database;
  changes: Changes;
  /** Derived for webhook secrets, the current one. */
  key: Buffer;
}

export class Webhooks {
  readonly #parts: WebhookParts;
  readonly #actor: Actor;

  /** @param actor who makes the changes. */
  constructor(parts: WebhookParts, actor: Actor) {
    this.#parts = parts;
    this.#actor = actor;
  }

  /** 32 random bytes in hex: what `--generate-secret` shows once. */
  static generateSecret(): string {
    return randomBytes(32).toString('hex');
  }

  /** Throws InputError that names the bad field, or an agent that does not exist. */
  async add(webhook: NewWebhook): Promise<WebhookRecord> {
    const name = checkName(webhook.name);
    const signatureHeader = webhook.signatureHeader === null ? null : checkHeader(webhook.signatureHeader);
    const dedupeHeader = webhook.dedupeHeader === null ? null : checkHeader(webhook.dedupeHeader);
    const secret = webhook.secret === null ? null : checkSecret(webhook.secret);
    const id = randomUUID();
    return this.#parts.changes.announced(`webhook:${id}`, () =>
      this.#parts.database.transaction(async (query) => {
        await insertWebhook(query, { id, name, signatureHeader, dedupeHeader, rateLimitMax: webhook.rateLimitMax });
        if (secret !== null) await replaceSecret(query, id, this.#seal(secret, id), 0);
        const pairs = (webhook.agentIds ?? []).map((agentId) => ({ webhookId: id, agentId }));
        await subscribeAll(query, pairs);
        const [made] = await listWebhooks({ query }, id);
        await record(query, this.#actor, { action: 'webhook.create', target: targetOf(made!), after: made! });
        return made!;
      }),
    );
  }

  /** All webhooks that are not deleted, oldest first. */
  list(): Promise<WebhookRecord[]> {
    return listWebhooks(this.#parts.database, null);
  }

  setEnabled(id: string, enabled: boolean): Promise<Change<null>> {
    return this.#change(id, enabled ? 'enable' : 'disable', (query) => setWebhookEnabled(query, id, enabled));
  }

  /** Soft: events keep their webhook. */
  remove(id: string): Promise<Change<null>> {
    return this.#change(id, 'delete', (query) => deleteWebhook(query, id));
  }

  /** The new secret holds at once; the one before verifies for `overlapSeconds` more. */
  async rotate(id: string, secret: string, overlapSeconds: number): Promise<Change<null>> {
    const sealed = this.#seal(checkSecret(secret), id);
    return this.#change(id, 'rotate_secret', (query) => replaceSecret(query, id, sealed, overlapSeconds));
  }

  /** Makes a change to a webhook that exists and puts it on record. */
  #change(id: string, verb: string, work: (query: Query) => Promise<unknown>): Promise<Change<null>> {
    return this.#parts.changes.announced(`webhook:${id}`, () =>
      this.#parts.database.transaction<Change<null>>(async (query) => {
        const [before] = await listWebhooks({ query }, id);
        if (before === undefined) return { kind: 'unknown' };
        await work(query);
        const [after = null] = await listWebhooks({ query }, id);
        await record(query, this.#actor, { action: `webhook.${verb}`, target: targetOf(before), before, after });
        return { kind: 'done', value: null };
      }),
    );
  }

  #seal(secret: string, id: string): Buffer {
    return seal(Buffer.from(secret), this.#parts.key, id);
  }
}

function targetOf({ id, name }: WebhookRecord): { kind: string; id: string; name: string } {
  return { kind: 'webhook', id, name };
}

function checkHeader(header: string): string {
  if (!fieldName.test(header))
    throw new InputError(`${JSON.stringify(header)} is no header name; letters, digits and hyphens, at most 100`);
  return header.toLowerCase();
}

function checkSecret(secret: string): string {
  if (secret === '' || secret.length > SECRET_CHARACTERS_MAX)
    throw new InputError(`the secret must have 1 to ${SECRET_CHARACTERS_MAX} characters`);
  return secret;
}
