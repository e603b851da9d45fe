/** Webhook management. A change resolves once it is committed, announced, and known to every process. */
import { randomUUID } from 'node:crypto';
import { invalid, mapped, type Problem, ProblemError, problem, type Result } from '../../../base/http/problem.ts';
import type { SchemeDefinition } from '../../../model/signatures/definition.ts';
import { isAsymmetric, secretFault } from '../../../model/signatures/keys.ts';
import { answersFault } from '../../../model/webhook-answers.ts';
import { changeFault, changesScheme, generateSecret, selectedDefinition } from '../../../model/webhook-schemes.ts';
import type { Rotation } from '../../../model/webhook-secrets.ts';
import type { NewWebhook, WebhookPatch } from '../../../model/webhooks.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import type { Cells } from '../../../store/cells/cells.ts';
import { endSubscriptions } from '../../../store/queries/agents/subscriptions.ts';
import { readDatabaseBytes } from '../../../store/queries/server-state.ts';
import { deletePreviousSecret, replaceSecret } from '../../../store/queries/webhooks/secrets.ts';
import {
  deleteWebhook,
  findWebhook,
  insertWebhook,
  lockWebhook,
  setVerifyToken,
  updateWebhook,
  type WebhookRecord,
} from '../../../store/queries/webhooks/webhooks.ts';
import { seal, verifyTokenContext } from '../../../store/secrets/seal.ts';
import { setAgents } from '../agents/subscriptions.ts';
import { asItIs, type ChangeParts, Changer, type Expects } from '../change.ts';

export interface WebhookParts extends ChangeParts {
  /** Current key derived for webhook secrets. */
  key: Buffer;
  /** Absent: events are stored at home. */
  cells?: Cells;
}

/** `secret` is set if it was generated; it is returned only here. */
type WithSecret = WebhookRecord & { secret?: string };

/**
 * The changer of webhooks: for their own operations and for moves between cells.
 * @param actor author of the changes
 */
export function webhookChanger(parts: ChangeParts, actor: Actor): Changer<WebhookRecord> {
  return new Changer(parts, actor, {
    name: 'webhook',
    nameOf: ({ name }) => name,
    unknown: 'webhook_unknown',
    lock: lockWebhook,
    find: findWebhook,
  });
}

export class Webhooks {
  readonly #parts: WebhookParts;
  readonly #actor: Actor;
  readonly #changer: Changer<WebhookRecord>;

  constructor(parts: WebhookParts, actor: Actor) {
    this.#parts = parts;
    this.#actor = actor;
    this.#changer = webhookChanger(parts, actor);
  }

  /** A webhook that is restored stays in its cell, with its events. */
  async add(given: NewWebhook): Promise<Result<WithSecret>> {
    const { id = randomUUID(), agent_ids, secret, generate_secret, verify_token, cell: wanted, ...columns } = given;
    const wrong = answersProblem({ ...columns, has_secret: secret !== null || generate_secret });
    if (wrong !== null) return wrong;
    const cell = await this.#cellFor(wanted);
    if (typeof cell !== 'number') return cell;
    const generated = generate_secret ? { secret: generateSecret(selectedDefinition(columns)!) } : {};
    const newSecret = generated.secret ?? secret;
    const made = await this.#changer.create(id, async (query) => {
      const isRestored = await insertWebhook(query, id, columns, cell);
      if (isRestored === null) throw new ProblemError(problem('id_taken'));
      if (isRestored) await endSubscriptions(query, { webhookId: id }, [], 'except');
      if (newSecret !== null) await replaceSecret(query, id, this.#seal(newSecret, id), 0);
      if (verify_token !== null) await setVerifyToken(query, id, this.#sealedVerifyToken(verify_token, id));
      await setAgents(query, id, agent_ids);
      return { isRestored };
    });
    return mapped(made, (webhook) => ({ ...webhook, ...generated }));
  }

  /** Sets the given members; the others are unchanged. */
  update(id: string, patch: WebhookPatch, expects: Expects<WebhookRecord> = asItIs): Promise<Result<WebhookRecord>> {
    const { agent_ids, secret, verify_token, unverified = false, ...columns } = patch;
    return this.#changer.change(id, 'update', expects, async (query, before) => {
      const has_verify_token = verify_token === undefined ? before.has_verify_token : verify_token !== null;
      // A webhook whose scheme a newer release set can still be renamed and disabled.
      if (changesScheme(patch) || patch.answer || secret !== undefined) {
        const has_secret = before.has_secret || secret !== undefined;
        const after = changedBy(before, { ...columns, has_secret, has_verify_token });
        refuseFault(before, after, unverified);
        if (secret !== undefined) refuseSecret(before, after, secret);
      }
      if (secret !== undefined) await replaceSecret(query, id, this.#seal(secret, id), 0);
      await updateWebhook(query, id, columns);
      if (verify_token !== undefined) await setVerifyToken(query, id, this.#sealedVerifyToken(verify_token, id));
      if (agent_ids !== undefined) await setAgents(query, id, agent_ids);
    });
  }

  /** Soft delete: stored events keep their webhook. */
  remove(id: string, expects: Expects<WebhookRecord> = asItIs): Promise<Result<WebhookRecord>> {
    return this.#changer.change(id, 'delete', expects, (query) => deleteWebhook(query, id));
  }

  /** The new secret is valid immediately; the previous one verifies for `overlap_seconds` more. */
  async rotate(
    id: string,
    { secret, overlap_seconds }: Rotation,
    expects: Expects<WebhookRecord> = asItIs,
  ): Promise<Result<WithSecret>> {
    let newSecret = secret ?? '';
    const changed = await this.#changer.change(id, 'rotate_secret', expects, async (query, before) => {
      // A scheme that takes either key gets its first secret while the public key is still set.
      const definition = selectedDefinition({ ...before, public_key: null });
      const fault = definition === null ? null : rotationFault(definition, secret);
      if (fault !== null) throw new ProblemError(invalid('/secret', fault));
      newSecret = secret ?? generateSecret(definition!);
      await replaceSecret(query, id, this.#seal(newSecret, id), overlap_seconds);
      await updateWebhook(query, id, {});
    });
    return mapped(changed, (webhook) => ({ ...webhook, ...(secret === null ? { secret: newSecret } : {}) }));
  }

  /** Ends the overlap of a rotation now: the previous secret verifies nothing any more. */
  endPreviousSecret(id: string, expects: Expects<WebhookRecord> = asItIs): Promise<Result<WebhookRecord>> {
    return this.#changer.change(id, 'end_previous_secret', expects, async (query) => {
      if (!(await deletePreviousSecret(query, id))) throw new ProblemError(problem('secret_unknown'));
      await updateWebhook(query, id, {});
    });
  }

  /**
   * Sets members and, if given, the sender's secret in one change: a scheme and its secret are valid only together. The previous secret
   * stays valid for `overlapSeconds`.
   */
  reconfigure(
    id: string,
    patch: Pick<WebhookPatch, 'signature_header' | 'signature_scheme' | 'public_key'>,
    secret: string | null,
    overlapSeconds: number,
  ): Promise<Result<WebhookRecord>> {
    // The new scheme may not have some members of the old one.
    const columns =
      patch.signature_scheme === undefined
        ? patch
        : { scheme_definition: null, signature_header: null, tolerance_seconds: null, public_key: null, ...patch };
    return this.#changer.change(id, secret === null ? 'update' : 'rotate_secret', asItIs, async (query, before) => {
      const changed = changedBy(before, { ...columns, has_secret: before.has_secret || secret !== null });
      refuseFault(before, changed, false);
      const wrong = secret === null ? null : rotationFault(selectedDefinition(changed)!, secret);
      if (wrong !== null) throw new ProblemError(invalid('/secret', wrong));
      if (secret !== null) await replaceSecret(query, id, this.#seal(secret, id), overlapSeconds);
      await updateWebhook(query, id, columns);
    });
  }

  /**
   * Records the author of a test, which stores an event that no sender sent.
   * @param status status of the test response; null: no response
   */
  recordTest({ id, name }: WebhookRecord, status: number | null): Promise<void> {
    const happened = { action: 'webhook.test' as const, target: { kind: 'webhook', id, name }, after: { status } };
    return this.#parts.database.transaction((query) => record(query, this.#actor, happened));
  }

  async #cellFor(wanted: number | null): Promise<number | Problem> {
    const { cells } = this.#parts;
    if (cells === undefined) return wanted === null || wanted === 0 ? 0 : problem('cell_unknown');
    if (wanted === null) return chooseCell(cells);
    if (!cells.known) await cells.load();
    const cell = cells.find(wanted);
    if (cell === undefined) return problem('cell_unknown');
    return cell.isFit ? wanted : problem('cell_unfit');
  }

  #seal(secret: string, context: string): Buffer {
    return seal(Buffer.from(secret), this.#parts.key, context);
  }

  #sealedVerifyToken(token: string | null, id: string): Buffer | null {
    return token === null ? null : this.#seal(token, verifyTokenContext(id));
  }
}

/** The members after a change: undefined ones are unchanged. */
function changedBy<Row extends object>(before: Row, change: { [Member in keyof Row]?: Row[Member] | undefined }): Row {
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  return { ...before, ...Object.fromEntries(given) };
}

/** Throws ProblemError if the members of the scheme do not fit together, or the change must be confirmed. */
function refuseFault(before: WebhookRecord, after: WebhookRecord, unverified: boolean): void {
  const fault = changeFault(before, after, unverified);
  if (fault !== null) throw new ProblemError(invalid(`/${fault.member}`, fault.detail));
  const wrong = answersProblem(after);
  if (wrong !== null) throw new ProblemError(wrong);
}

/** Throws ProblemError, unless the change is from a public key to this secret: neither can be set before the other. */
function refuseSecret(before: WebhookRecord, after: WebhookRecord, secret: string): void {
  const fault =
    before.public_key === null
      ? 'A secret is changed by POST /api/v1/webhooks/{id}/rotate-secret.'
      : rotationFault(selectedDefinition(after)!, secret);
  if (fault !== null) throw new ProblemError(invalid('/secret', fault));
}

function answersProblem(members: Parameters<typeof answersFault>[0]): Problem | null {
  const fault = answersFault(members);
  if (fault === null) return null;
  const { member, detail } = fault;
  return problem('answer_invalid', detail, { errors: [{ pointer: `/${member}`, detail }] });
}

/** Why the secret cannot become this one; null: it can. @param secret null: one is generated. */
function rotationFault(definition: SchemeDefinition, secret: string | null): string | null {
  if (isAsymmetric(definition.algorithm)) return 'The scheme of the webhook uses a public key: change public_key.';
  return secret === null ? null : secretFault(definition, secret);
}

/**
 * The cell of a new webhook, or of one that leaves a drained cell: the active one with the fewest bytes; home counts as one. Without
 * other cells: home.
 */
export async function chooseCell(cells: Cells): Promise<number> {
  if (!cells.known) await cells.load();
  const fit = cells.all().filter(({ isFit }) => isFit);
  if (fit.length <= 1) return fit[0]?.number ?? 0;
  const sized = await Promise.all(
    fit.map(async ({ number, database }) => ({
      number,
      bytes: await readDatabaseBytes(database).catch(() => Number.POSITIVE_INFINITY),
    })),
  );
  return sized.reduce((one, other) => (other.bytes < one.bytes ? other : one)).number;
}
