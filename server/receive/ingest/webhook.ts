/** A webhook as the request path uses it. Its secrets are decrypted once, when its row is read. */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Decision, Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import { type OrderReader, orderReader } from '../../model/order-by.ts';
import { type CompiledAnswer, compileAnswer, type RefusedStatus } from '../../model/signatures/answer.ts';
import type { Keyring } from '../../model/signatures/check.ts';
import { type EventTypeReader, eventTypeFromOf, eventTypeReader } from '../../model/signatures/event-type.ts';
import { compilePath, type PathStep } from '../../model/signatures/json-scan.ts';
import { isAsymmetric, keysOf, keysPerSecret, publicKeyOf, sha256 } from '../../model/signatures/keys.ts';
import { CUSTOM, schemeOf } from '../../model/signatures/presets.ts';
import type { Scheme } from '../../model/signatures/scheme.ts';
import { headerOf, pointerOf } from '../../model/signatures/sources.ts';
import type { Database } from '../../store/connect/pool.ts';
import { Directory } from '../../store/directory.ts';
import { uuidBytes } from '../../store/ids.ts';
import { readWebhookIds, readWebhooks, type WebhookRow } from '../../store/queries/webhooks/webhooks.ts';
import { unseal, verifyTokenContext } from '../../store/secrets/seal.ts';
import { Slot } from '../../store/write-behind.ts';
import type { WebhookCounter } from './ingest-counts.ts';

/** Limit on compiled presets in memory, one for each combination of settings. At the limit all are dropped. */
const SCHEMES_MAX = 1_000;

export interface Webhook {
  readonly id: string;
  readonly idBytes: Uint8Array;
  /** The cell that stores its new events. */
  readonly cell: number;
  readonly enabled: boolean;
  readonly scheme: Scheme;
  /** Lower case. A request with a known value of this header is not stored again. */
  readonly dedupeHeader: string | null;
  /** Path of the sender's id in the body, for a scheme that has the id there; null: only `dedupeHeader` counts. */
  readonly dedupePath: readonly PathStep[] | null;
  /** Reads the type of an event; null: its events have none, which costs nothing. */
  readonly eventType: EventTypeReader | null;
  /** Reads the keys by which deliveries of an event are ordered; null: no subscription has an `order_by`, which costs nothing. */
  readonly orderKeys: OrderReader | null;
  /** True: members of the body are read, or its decompressed bytes are signed. */
  readonly readsJson: boolean;
  /** Null: the default answer. */
  readonly answer: CompiledAnswer | null;
  /** Status of the response to a request whose signature is refused. */
  readonly refusedStatus: RefusedStatus;
  readonly capBytes: number;
  /** The webhook's own rate limit; null: the default limit applies. */
  readonly policy: Policy | null;
  /** Scope that its own limit counts in, together with the client. */
  readonly limitScope: string;
  /**
   * Keys of the readable secrets, current first. A webhook without readable or unreadable secrets requires no signature.
   * Stays the same object until a secret changes or expires.
   */
  keyring: Keyring;
  readonly keysPerSecret: number;
  /** SHA-256 of the token of a GET handshake; null: none. */
  readonly verifyToken: Uint8Array | null;
  /** Ids of the readable secrets, in the order of their keys; empty for a public key. */
  readonly secretIds: readonly string[];
  /** When the last valid secret that no key decrypts expires: Infinity for the current secret; 0 if every secret is readable. */
  readonly unreadableUntilMs: number;
  /** When the previous secret expires; null without one. */
  readonly previousExpiresAtMs: number | null;
  /** Requests since the last write; the same object after a change of the webhook. */
  readonly counter: WebhookCounter;
  /** Times of its events, see LatencyCounts. */
  readonly latency: Slot<number[]>;
}

export interface WebhookSource {
  database: Database;
  /** Keys that encrypt webhook secrets, current first. */
  keys: readonly Buffer[];
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  /** Window of a webhook's own rate limit. */
  windowSeconds: number;
  counterOf: (row: WebhookRow) => WebhookCounter;
  /** Called when a stored secret becomes unreadable: no key decrypts it. */
  onUnreadable: (webhookId: string) => void;
  /** See Directory. */
  keepsServing: () => boolean;
}

interface WebhookDirectory {
  directory: Directory<Webhook>;
  /** Ids of known webhooks with an unreadable secret. */
  unreadable: ReadonlySet<string>;
}

/** Creates the directory of the webhooks that are not deleted. @param saved rows that were read in the past, newest first. */
export function webhookDirectory(source: WebhookSource, saved: readonly WebhookRow[] = []): WebhookDirectory {
  const unreadable = new Set<string>();
  const schemes = new SharedSchemes();
  const openAll = (rows: readonly WebhookRow[], ids: readonly string[] | null) => {
    const before = new Set(unreadable);
    for (const id of ids ?? before) unreadable.delete(id);
    return rows.map((row) => {
      const webhook = open(row, schemes.of(row), source);
      if (webhook.unreadableUntilMs > 0) {
        unreadable.add(row.id);
        if (!before.has(row.id)) source.onUnreadable(row.id);
      }
      return webhook;
    });
  };
  const directory = new Directory<Webhook>(
    async (ids, rowsMax) => openAll(await readWebhooks(source.database, ids, rowsMax), ids),
    { ...source, readIds: (rowsMax) => readWebhookIds(source.database, rowsMax) },
  );
  directory.seed(openAll(saved, null));
  return { directory, unreadable };
}

/** Returns the webhook's keys at `nowMs`, and removes the keys of a previous secret that has expired. */
export function keyringAt(webhook: Webhook, nowMs: number): Keyring {
  const { previousExpiresAtMs, keyring } = webhook;
  const current = isCurrent(webhook, 0) ? webhook.keysPerSecret : 0;
  if (previousExpiresAtMs !== null && previousExpiresAtMs <= nowMs && keyring.keys.length > current)
    webhook.keyring = { ...keyring, keys: keyring.keys.slice(0, current) };
  return webhook.keyring;
}

/** Whether the secret at this index of `secretIds` is the current one. */
export function isCurrent(webhook: Webhook, index: number): boolean {
  return index === 0 && webhook.unreadableUntilMs !== Number.POSITIVE_INFINITY;
}

/** Compiled presets: webhooks with the same settings share one, which takes 1 to 2 KB, half of the memory of a webhook. */
class SharedSchemes {
  readonly #known = new Map<string, Scheme>();

  of(row: WebhookRow): Scheme {
    const { signatureScheme, signatureHeader, toleranceSeconds, publicKey } = row;
    if (signatureScheme === CUSTOM) return schemeOf(row);
    const settings = JSON.stringify([signatureScheme, signatureHeader, toleranceSeconds, publicKey === null]);
    let scheme = this.#known.get(settings);
    if (scheme === undefined) {
      if (this.#known.size >= SCHEMES_MAX) this.#known.clear();
      scheme = schemeOf(row);
      this.#known.set(settings, scheme);
    }
    return scheme;
  }
}

function open(row: WebhookRow, scheme: Scheme, { keys, capBytes, windowSeconds, counterOf }: WebhookSource): Webhook {
  const { algorithm, id } = scheme.definition;
  const asymmetric = isAsymmetric(algorithm);
  const opened = (asymmetric ? [] : row.sealed).map((sealed, index) => ({
    secret: unseal(sealed, keys, row.id),
    id: row.secretIds[index]!,
    untilMs: index === 0 ? Number.POSITIVE_INFINITY : row.previousExpiresAtMs!,
  }));
  const readable = opened.filter(({ secret }) => secret !== null);
  const lost = opened.filter(({ secret }) => secret === null);
  const publicKey = asymmetric ? publicKeyOf(scheme.definition, row.publicKey ?? '') : null;
  const ownKeys =
    publicKey === null ? readable.flatMap(({ secret }) => keysOf(scheme.definition, secret!)) : [publicKey];
  const verifyToken = row.verifyToken && unseal(row.verifyToken, keys, verifyTokenContext(row.id));
  const dedupeHeader = row.dedupeHeader ?? headerOf(id);
  const dedupeNames = dedupeHeader === null ? pointerOf(id) : null;
  const answer = row.answer ? compileAnswer(row.answer) : scheme.answer;
  const typeFrom = eventTypeFromOf(row.eventTypeFrom, scheme.name);
  const pointers = [dedupeNames, scheme.clock?.path ?? null, answer?.path ?? null];
  return {
    id: row.id,
    idBytes: uuidBytes(row.id),
    cell: row.cell,
    enabled: row.enabled,
    scheme,
    dedupeHeader,
    dedupePath: dedupeNames && compilePath(dedupeNames),
    eventType: eventTypeReader(row.eventTypeFrom, scheme),
    orderKeys: orderReader(row.orders ?? null, uuidBytes(row.id)),
    readsJson:
      scheme.definition.decompress === true ||
      typeFrom?.includes('json:') === true ||
      pointers.some((path) => path !== null) ||
      row.orders?.some(({ orderBy }) => orderBy.startsWith('/')) === true,
    answer,
    refusedStatus: row.refusedStatus ?? scheme.definition.refused_status ?? 403,
    capBytes: Math.min(capBytes, row.maxPayloadBytes ?? capBytes),
    policy: row.rateLimitMax === null ? null : { name: 'ingest', max: row.rateLimitMax, windowSeconds },
    limitScope: `ingest:${row.id}`,
    keyring: { algorithm, keys: ownKeys },
    keysPerSecret: keysPerSecret(scheme.definition),
    verifyToken: verifyToken && sha256(verifyToken),
    secretIds: readable.map(({ id }) => id),
    unreadableUntilMs: Math.max(0, ...lost.map(({ untilMs }) => untilMs)),
    previousExpiresAtMs: row.previousExpiresAtMs,
    counter: counterOf(row),
    latency: new Slot(row.id),
  };
}

/** Counts one ingest request against the webhook's own limit if it has one, otherwise against the default limit. */
export function countRequest(
  limiter: RateLimiter,
  defaultPolicy: Policy,
  { client }: Exchange,
  webhook: Webhook | undefined,
): Decision | Promise<Decision> {
  const own = webhook?.policy;
  return own
    ? limiter.take(client.limitKey(webhook.limitScope), own)
    : limiter.take(client.limitKey('ingest'), defaultPolicy);
}
