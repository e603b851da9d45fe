/** Clients: by dynamic registration (RFC 7591), or by a client id metadata document, whose https address is the client id. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { problem, type Result } from '../../base/http/problem.ts';
import { checkedAddresses, type Resolve, requestChecked } from '../../base/net/checked-address.ts';
import { isSafeUrl } from '../../base/net/loopback.ts';
import { within } from '../../base/time/every.ts';
import { nameText } from '../../model/fields.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findClient, insertClient } from '../../store/queries/users/oauth.ts';

/** Registered clients of an installation. */
export const CLIENTS_MAX = 1_000;
const REDIRECTS_MAX = 10;
const URL_CHARACTERS_MAX = 500;
/** The limit that draft-ietf-oauth-client-id-metadata-document recommends. */
const DOCUMENT_BYTES_MAX = 5_120;
const DOCUMENT_TIMEOUT_MS = 5_000;

export interface OAuthClient {
  id: string;
  /** As the client names itself: anyone can claim any name. */
  name: string;
  redirectUris: string[];
}

/** Members that Weir uses; others are ignored (RFC 7591, section 2). */
const metadataSchema = z.object({
  redirect_uris: z.array(z.string().refine(isRedirect)).min(1).max(REDIRECTS_MAX),
  client_name: z.string().optional().catch(undefined),
});
/** A document of a client that would authenticate by a secret or a key is refused: Weir checks neither. */
const documentSchema = metadataSchema.extend({
  client_id: z.string(),
  token_endpoint_auth_method: z.literal('none').optional(),
});

/** A refusal in the form of OAuth (RFC 6749, section 5.2). */
export interface OAuthRefusal {
  kind: 'refused';
  error: string;
  description: string;
  /** The request may succeed after this time: it is answered 503. */
  retryAfterSeconds?: number;
}

/** A refusal with this error code of OAuth. */
export function refusal(error: string, description: string): OAuthRefusal {
  return { kind: 'refused', error, description };
}

/** Registers a client without a secret, whatever it asks for. */
export async function registerClient(
  database: Database,
  given: unknown,
): Promise<{ kind: 'done'; value: OAuthClient } | OAuthRefusal> {
  const { data } = metadataSchema.safeParse(given);
  if (data === undefined)
    return refusal('invalid_redirect_uri', `Give 1 to ${REDIRECTS_MAX} redirect_uris: https, or http on loopback.`);
  const client = { id: randomUUID(), ...clientOf(data) };
  await insertClient(database, client, CLIENTS_MAX);
  return { kind: 'done', value: client };
}

/** Finds the client of an authorization request. A metadata document is fetched each time. */
export async function readClient(database: Database, id: string, options?: FetchOptions): Promise<Result<OAuthClient>> {
  if (isDocumentUrl(id)) return fetchClient(id, options);
  const client = await findClient(database, id);
  return client === undefined
    ? problem('invalid_request', 'The client is not registered, or its registration has expired. Add Weir to it again.')
    : { kind: 'done', value: client };
}

/** Whether the browser may be redirected there: to an address that the client lists; on loopback with any port (RFC 8252, section 7.3). */
export function mayRedirect({ redirectUris }: OAuthClient, given: string): boolean {
  if (redirectUris.includes(given)) return true;
  return isRedirect(given) && given.startsWith('http:') && redirectUris.map(withoutPort).includes(withoutPort(given));
}

function withoutPort(url: string): string {
  return url.replace(/^(http:\/\/(?:\[[^\]]*\]|[^/:?]+)):\d+/, '$1');
}

function isRedirect(text: string): boolean {
  if (text.length > URL_CHARACTERS_MAX || !/^[!-~]+$/.test(text) || text.includes('#') || !URL.canParse(text))
    return false;
  const url = new URL(text);
  return isSafeUrl(url) && url.username === '' && url.password === '';
}

/** Whether the id is an https URL with a path, written as a URL parser writes it. */
function isDocumentUrl(id: string): boolean {
  if (!id.startsWith('https:') || !isRedirect(id)) return false;
  const { href, pathname } = new URL(id);
  return href === id && pathname !== '/';
}

function clientOf({
  client_name,
  redirect_uris: redirectUris,
}: z.output<typeof metadataSchema>): Omit<OAuthClient, 'id'> {
  const name = nameText.safeParse(client_name);
  return { name: name.success ? name.data : new URL(redirectUris[0]!).host.slice(0, 200), redirectUris };
}

/** For tests. */
interface FetchOptions {
  resolve?: Resolve;
  allowPrivate?: boolean;
  timeoutMs?: number;
}

/** Fetches a metadata document, from public addresses only; the addresses are checked like those of ALERT_URL. */
async function fetchClient(
  id: string,
  { resolve, allowPrivate = false, timeoutMs = DOCUMENT_TIMEOUT_MS }: FetchOptions = {},
): Promise<Result<OAuthClient>> {
  const read = async () => {
    const url = new URL(id);
    const addresses = await checkedAddresses(url.hostname, allowPrivate, resolve);
    const headers = { accept: 'application/json', 'user-agent': 'weir' };
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await requestChecked(url, addresses, { headers, signal });
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) {
      text += chunk;
      if (response.statusCode !== 200 || text.length > DOCUMENT_BYTES_MAX) return undefined;
    }
    const { data } = documentSchema.safeParse(JSON.parse(text));
    return data?.client_id === id ? clientOf(data) : undefined;
  };
  const client = await within(timeoutMs, read()).catch(() => undefined);
  return client === undefined
    ? problem('invalid_request', `${id} is not the metadata document of a client without a secret, or cannot be read.`)
    : { kind: 'done', value: { id, ...client } };
}
