/** Client id metadata documents: fetched from an https server, of which only the certificate is not checked. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readClient } from '../../../server/manage/oauth/clients.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';

const fresh = shared(freshDatabase);

/** A key and its certificate for tests alone. */
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCsuqPhjLwo/H3oG5
pLZsLE0Da9CLe6FIaTt0mmIySC2hRANCAASHGucNbQ7jXKLCAsrXsUPDtgmqvaCw
k/meT/P9wRyRu3QgziVGZEy37+kXo4CxapUqwGp6xtYgzNIG7jpp3/1C
-----END PRIVATE KEY-----`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIUJuavXuuwyLYynyDRUdTuq1aUvUwwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOY2xpZW50LmV4YW1wbGUwIBcNMjYxMTI3MTMzOTExWhgPMjEy
NjExMDMxMzM5MTFaMBkxFzAVBgNVBAMMDmNsaWVudC5leGFtcGxlMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEhxrnDW0O41yiwgLK17FDw7YJqr2gsJP5nk/z/cEc
kbt0IM4lRmRMt+/pF6OAsWqVKsBqesbWIMzSBu46ad/9QqNTMFEwHQYDVR0OBBYE
FGnRPWgpnzS/+sJunHKDt7Do6KQ8MB8GA1UdIwQYMBaAFGnRPWgpnzS/+sJunHKD
t7Do6KQ8MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgLPa++YVT
03c2ToPCLNcQniaTYm0uxPpGjCKQKfG//dMCIQC3ciXW34dbxdCherHaE57tj6Po
ZGwm7cIR+JC4R5PD/Q==
-----END CERTIFICATE-----`;

let answer: (request: IncomingMessage, response: ServerResponse) => void;
let requests = 0;
const server = createServer({ key, cert }, (request, response) => {
  requests++;
  answer(request, response);
});
let id: string;
beforeAll(async () => {
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  id = `https://client.example:${(server.address() as AddressInfo).port}/oauth/client.json`;
});
afterAll(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const resolve = async () => [{ address: '127.0.0.1' }];
const read = (client = id, timeoutMs = 60_000) =>
  readClient(fresh.database, client, { resolve, allowPrivate: true, timeoutMs });
const document = () => ({ client_id: id, client_name: 'A client', redirect_uris: ['https://client.example/callback'] });
const answering = (content: unknown, status = 200, headers = {}) => {
  answer = (_, response) =>
    void response.writeHead(status, headers).end(typeof content === 'string' ? content : JSON.stringify(content));
};

test('a client by its document', async () => {
  answering({ ...document(), token_endpoint_auth_method: 'none', logo_uri: 'https://client.example/logo.png' });
  expect(await read()).toEqual({
    kind: 'done',
    value: { id, name: 'A client', redirectUris: ['https://client.example/callback'] },
  });
  answering({ ...document(), client_name: undefined });
  expect(await read()).toMatchObject({ value: { name: 'client.example' } });
});

test.each<[string, () => void]>([
  ['of another client', () => answering({ ...document(), client_id: 'https://other.example/client.json' })],
  ['with a secret', () => answering({ ...document(), token_endpoint_auth_method: 'client_secret_post' })],
  ['with a key', () => answering({ ...document(), token_endpoint_auth_method: 'private_key_jwt' })],
  ['with another scheme', () => answering({ ...document(), redirect_uris: ['cursor://callback'] })],
  ['without addresses', () => answering({ client_id: id })],
  ['that is no JSON', () => answering('<html>')],
  ['over 5 kB', () => answering({ ...document(), x: 'x'.repeat(5_000) })],
  ['behind a redirect', () => answering(document(), 302, { location: id })],
  ['that is missing', () => answering('', 404)],
  [
    'that breaks off',
    () => (answer = (_, response) => void response.writeHead(200, { 'content-length': 99 }).destroy()),
  ],
])('a document %s is refused', async (_, prepare) => {
  prepare();
  expect(await read()).toMatchObject({ kind: 'problem', code: 'invalid_request' });
});

test('a document that hangs is given up, also in the middle', async () => {
  answer = () => {};
  expect(await read(id, 300)).toMatchObject({ kind: 'problem' });
  answer = (_, response) => void response.writeHead(200).write('{');
  expect(await read(id, 300)).toMatchObject({ kind: 'problem' });
});

test.each([
  ['http', (own: string) => own.replace('https:', 'http:')],
  ['no path', (own: string) => new URL('/', own).href],
  ['a fragment', (own: string) => `${own}#a`],
  ['a user', (own: string) => own.replace('https://', 'https://a@')],
  ['dots', (own: string) => own.replace('/oauth/', '/x/../oauth/')],
])('an address with %s names no document', async (_, change) => {
  answering(document());
  const before = requests;
  expect(await read(change(id))).toMatchObject({ kind: 'problem' });
  expect(requests).toBe(before);
});

test('a name that resolves to an address that is not public is not asked', async () => {
  answering(document());
  const before = requests;
  expect(await readClient(fresh.database, id, { resolve })).toMatchObject({ kind: 'problem' });
  expect(requests).toBe(before);
});
