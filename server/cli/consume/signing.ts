/** How forwarded requests are signed: by the scheme of the webhook that received the event, with a key of the command. */
import { CommandError, type CommandIo, readGiven } from '../../base/command/io.ts';
import { type ApiClient, repeater, unexpected } from '../../deliver/client/http.ts';
import type { BodyOf } from '../../manage/api/operations.ts';
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { isAsymmetric } from '../../model/signatures/keys.ts';
import { DEFAULT_SCHEME, definitionOf } from '../../model/signatures/presets.ts';
import { CannotSign, signRequest } from '../../model/signatures/sign.ts';

/** How the requests for the events of one webhook are signed; null: not at all. */
export type Signing = { definition: SchemeDefinition; key: Buffer } | null;

/** The members of a webhook, as the API returns it, that forwarding needs. */
export type ForwardedWebhook = Pick<
  BodyOf<'showWebhook'>,
  'id' | 'name' | 'url' | 'signature_scheme' | 'scheme_definition' | 'signature_header' | 'public_key'
>;

/** Keys of the target. Null: not given. */
export interface ForwardKeys {
  secret: string | null;
  /** In PEM. */
  privateKey: string | null;
}

/** Reads the keys. Throws CommandError when the file cannot be read. */
export async function readForwardKeys(
  { secret, privateKey }: { secret?: string; privateKey?: string },
  io: CommandIo,
): Promise<ForwardKeys> {
  return {
    secret: secret || io.environment.WEIR_SECRET || null,
    privateKey: privateKey === undefined ? null : await readGiven(io, privateKey),
  };
}

/** How requests for a webhook are signed with these keys. Throws CannotSign when the scheme needs another key, or one that was not given. */
export function signingFor(webhook: ForwardedWebhook, { secret, privateKey }: ForwardKeys): Signing {
  if (secret === null && privateKey === null) return null;
  const { signature_scheme: scheme, signature_header: header } = webhook;
  const definition = definitionOf({
    signatureScheme: scheme,
    schemeDefinition: webhook.scheme_definition,
    signatureHeader: header,
    publicKey: webhook.public_key,
  });
  if (definition === null) throw new CannotSign(`this version of weir does not know the scheme ${scheme}`);
  const isKeyPair = isAsymmetric(definition.algorithm);
  const key = isKeyPair ? privateKey : secret;
  if (key === null)
    throw new CannotSign(
      `the scheme ${scheme} of webhook ${webhook.name} needs ${isKeyPair ? '--private-key' : '--secret'}`,
    );
  const complete = scheme === DEFAULT_SCHEME && header !== null ? { ...definition, header } : definition;
  const signing = { definition: complete, key: Buffer.from(key) };
  // A key of the wrong kind is reported before the first request.
  const sample = { body: Buffer.from('{}'), method: 'POST', url: webhook.url, id: webhook.id, timeMs: 0, exact: true };
  signRequest(complete, signing.key, sample);
  return signing;
}

const ANSWER_TIMEOUT_MS = 30_000;
const ATTEMPTS_MAX = 5;
/** A scheme is read again after this time, in case it was changed. */
const VALID_MS = 600_000;

/** Reads a webhook, with an API token or the credential of a subscribed agent. Rejects with WeirError. */
export async function readWebhook(
  client: ApiClient,
  token: string,
  id: string,
  signal: AbortSignal,
): Promise<ForwardedWebhook> {
  const path = `api/v1/webhooks/${id}`;
  const repeat = repeater({ base: client.base, attemptsMax: ATTEMPTS_MAX });
  const call = { method: 'GET', path, token, timeoutMs: ANSWER_TIMEOUT_MS, signal } as const;
  const reply = await repeat(() => client.send(call), signal);
  if (reply.kind === 'answered' && reply.status === 200) return reply.document as ForwardedWebhook;
  throw reply.kind === 'answered'
    ? unexpected(client, path, reply.status, reply.document)
    : new CommandError('The command was stopped.');
}

/**
 * Returns a function that finds how the requests for a webhook are signed. The webhook is read when it is needed; concurrent callers share one
 * request, since each counts in the limit of agent authentications. Rejects when the first read fails, or a key is missing.
 * @param nowMs monotonic clock
 */
export function signingReader(
  keys: ForwardKeys,
  read: (webhookId: string) => Promise<ForwardedWebhook>,
  nowMs: () => number = () => performance.now(),
): (webhookId: string) => Promise<Signing> {
  const known = new Map<string, { signing: Promise<Signing>; readMs: number }>();
  return async (id) => {
    if (keys.secret === null && keys.privateKey === null) return null;
    const before = known.get(id);
    if (before !== undefined && nowMs() - before.readMs < VALID_MS) return before.signing;
    const signing = read(id).then(
      (webhook) => signingFor(webhook, keys),
      (error) => before?.signing ?? Promise.reject(error),
    );
    known.set(id, { signing, readMs: nowMs() });
    signing.catch(() => known.delete(id));
    return signing;
  };
}
