/** Webhooks as people manage them: every change is committed, announced, and waited for until the processes know. */
import { randomBytes, randomUUID } from 'node:crypto';
import { seal } from '../core/seal.ts';
import { announced } from '../db/announce.ts';
import type { Database } from '../db/pool.ts';
import {
  deleteWebhook,
  insertWebhook,
  listWebhooks,
  replaceSecret,
  setWebhookEnabled,
  type WebhookRecord,
} from '../db/queries/manage-webhooks.ts';
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

const fieldName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const SECRET_CHARACTERS_MAX = 1_000;

export class Webhooks {
  readonly #database: Database;
  readonly #conninfo: string;
  readonly #key: Buffer;

  /** @param key derived for webhook secrets, the current one. */
  constructor(database: Database, conninfo: string, key: Buffer) {
    this.#database = database;
    this.#conninfo = conninfo;
    this.#key = key;
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
    await announced(this.#conninfo, `webhook:${id}`, () =>
      this.#database.transaction(async (query) => {
        await insertWebhook(query, { id, name, signatureHeader, dedupeHeader, rateLimitMax: webhook.rateLimitMax });
        if (secret !== null) await replaceSecret(query, id, this.#seal(secret, id), 0);
        const pairs = (webhook.agentIds ?? []).map((agentId) => ({ webhookId: id, agentId }));
        await subscribeAll(query, pairs);
      }),
    );
    return (await listWebhooks(this.#database, id))[0]!;
  }

  /** All webhooks that are not deleted, oldest first. */
  list(): Promise<WebhookRecord[]> {
    return listWebhooks(this.#database, null);
  }

  setEnabled(id: string, enabled: boolean): Promise<Change<null>> {
    return this.#change(id, (query) => setWebhookEnabled(query, id, enabled));
  }

  /** Soft: events keep their webhook. */
  remove(id: string): Promise<Change<null>> {
    return this.#change(id, (query) => deleteWebhook(query, id));
  }

  /** The new secret holds at once; the one before verifies for `overlapSeconds` more. */
  async rotate(id: string, secret: string, overlapSeconds: number): Promise<Change<null>> {
    const sealed = this.#seal(checkSecret(secret), id);
    return this.#change(id, async (query) => {
      const [known] = await listWebhooks({ query }, id);
      if (known === undefined) return false;
      await replaceSecret(query, id, sealed, overlapSeconds);
      return true;
    });
  }

  async #change(id: string, work: (query: Database['query']) => Promise<boolean>): Promise<Change<null>> {
    const found = await announced(this.#conninfo, `webhook:${id}`, () => this.#database.transaction(work));
    return found ? { kind: 'done', value: null } : { kind: 'unknown' };
  }

  #seal(secret: string, id: string): Buffer {
    return seal(Buffer.from(secret), this.#key, id);
  }
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
