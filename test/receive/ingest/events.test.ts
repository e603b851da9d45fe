import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { uuidv7Milliseconds } from '../../../server/store/ids.ts';
import { startTestApp } from '../../helpers/app.ts';
import { RawClient, signatureOf, signedRequest } from '../../helpers/requests.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
const webhook = shared(() => app.addWebhook());

interface StoredEvent {
  webhook_id: string;
  received_at: string;
  ip: string;
  headers: Buffer;
  content_type: string | null;
  body: Buffer;
  bytes: number;
}

async function stored(id: string): Promise<StoredEvent | undefined> {
  const [row] = await app.sql<StoredEvent>(
    `select webhook_id, to_char(received_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as received_at,
             host(source_ip) as ip, headers, content_type, body, bytes from events where id = $1`,
    id,
  );
  return row;
}

const signed = (body: Uint8Array<ArrayBuffer>) => signedRequest({ secret: webhook.secret, body });

describe('an accepted request', () => {
  test('is answered 202 with exactly the contract’s members', async () => {
    const body = Buffer.from('{"hello":"world"}');
    const response = await fetch(webhook.url, signed(body));
    expect(response.status).toBe(202);
    expect(response.headers.get('content-type')).toBe('application/json');
    const answer = (await response.json()) as Record<string, string>;
    expect(answer).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      webhook_id: webhook.id,
      received_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      bytes: 17,
    });
    expect(uuidv7Milliseconds(answer.id!)).toBe(Date.parse(answer.received_at!));
    expect(await stored(answer.id!)).toEqual({
      webhook_id: webhook.id,
      received_at: answer.received_at,
      ip: '127.0.0.1',
      headers: expect.any(Buffer),
      content_type: 'application/json',
      body,
      bytes: 17,
    });
  });

  test.each(['', '/batch'])('has the generated request id if its sender gave none (%s)', async (path) => {
    const idsOf = async (headers: Record<string, string>) => {
      const request = signed(Buffer.from('{}'));
      const sent = { ...(request.headers as Record<string, string>), ...headers };
      const response = await fetch(webhook.url + path, { ...request, headers: sent });
      const { id, ids } = (await response.json()) as { id?: string; ids?: string[] };
      const lines = (await stored(id ?? ids![0]!))!.headers.toString().split('\n');
      return [response.headers.get('x-request-id'), lines.filter((line) => line.startsWith('x-request-id'))];
    };
    const [reported, kept] = await idsOf({});
    expect(kept).toEqual([`x-request-id: ${reported}`]);
    expect(await idsOf({ 'X-Request-Id': 'its-own' })).toEqual(['its-own', ['x-request-id: its-own']]);
  });

  test.each([
    ['empty', Buffer.alloc(0)],
    ['of one NUL', Buffer.of(0)],
    ['of every byte there is', Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
    ['of bytes that are not UTF-8', Buffer.of(0xc3, 0x28, 0xff, 0xfe, 0xed, 0xa0, 0x80)],
    ['of what COPY would read as its end', Buffer.from('\\.\n\xff\xff', 'latin1')],
    ['of 64 KiB at random', randomBytes(65_536)],
    ['at the cap of 1 MiB', randomBytes(1_048_576)],
  ])('is stored byte for byte when its body is %s', async (_what, body) => {
    const response = await fetch(webhook.url, signed(body as Uint8Array<ArrayBuffer>));
    expect(response.status).toBe(202);
    const { id, bytes } = (await response.json()) as { id: string; bytes: number };
    expect(bytes).toBe(body.length);
    const row = (await stored(id))!;
    expect(row.bytes).toBe(body.length);
    expect(row.body.equals(body)).toBe(true);
  });

  test('can be one of many on a connection, each with its response in order', async () => {
    const client = await ofTest(RawClient.connect(app.port));
    const bodies = Array.from({ length: 50 }, (_, i) => `event ${i}`);
    for (const body of bodies) {
      const signature = signatureOf(webhook.secret!, body);
      await client.send(
        `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\nX-Webhook-Signature: ${signature}\r\n\r\n${body}`,
      );
      const answer = await client.answer();
      expect(answer!.status).toBe(202);
      expect((await stored(JSON.parse(answer!.body.toString()).id))!.body.toString()).toBe(body);
    }
  });

  test('is one row each for concurrent requests', async () => {
    const bodies = Array.from({ length: 200 }, () => randomBytes(Math.floor(Math.random() * 3_000)));
    const answers = await Promise.all(
      bodies.map(async (body) => (await fetch(webhook.url, signed(body as Buffer<ArrayBuffer>))).json()),
    );
    const ids = answers.map((answer) => (answer as { id: string }).id);
    expect(new Set(ids).size).toBe(200);
    const rows = await Promise.all(ids.map(stored));
    rows.forEach((row, i) => {
      expect(row!.body.equals(bodies[i]!)).toBe(true);
    });
  });

  test('finds its webhook by an upper-case id, and with a query', async () => {
    for (const url of [`${app.url}/in/${webhook.id.toUpperCase()}`, `${webhook.url}?source=a%20b`]) {
      const response = await fetch(url, signed(Buffer.from('x')));
      expect([response.status, ((await response.json()) as { webhook_id: string }).webhook_id]).toEqual([
        202,
        webhook.id,
      ]);
    }
  });
});

describe('the stored headers', () => {
  async function headersOf(lines: string[], of = webhook): Promise<StoredEvent> {
    const client = await RawClient.connect(app.port);
    const head = [`POST ${of.path} HTTP/1.1`, 'Host: example.org', 'Content-Length: 2', ...lines].join('\r\n');
    await client.send(Buffer.from(`${head}\r\n\r\n{}`, 'latin1'));
    const answer = await client.answer();
    client.destroy();
    expect(answer!.status).toBe(202);
    return (await stored(JSON.parse(answer!.body.toString()).id))!;
  }

  test('exclude credentials, signatures, and names that end like secrets', async () => {
    const own = await app.addWebhook({ signature_header: 'X-Own-Mark' });
    const row = await headersOf(
      [
        'X-GitHub-Event: push',
        'Authorization: Bearer hush',
        'Proxy-Authorization: hush',
        'Cookie: hush',
        'X-Hub-Signature-256: hush',
        'X-Webhook-Signature: hush',
        `X-Own-Mark: ${signatureOf(own.secret!, '{}')}`,
        'X-Gitlab-Token: hush',
        'X-Client-Secret: hush',
        'X-API-KEY: hush',
        'X-Token-Count: 3',
      ],
      own,
    );
    const [given, ...sent] = row.headers.toString().split('\n');
    expect(given).toMatch(/^x-request-id: [a-z0-9-]+$/);
    expect(sent.join('\n')).toBe('host: example.org\ncontent-length: 2\nx-github-event: push\nx-token-count: 3');
    expect(row.content_type).toBeNull();
  });

  test('keep repeated fields, empty ones and bytes beyond ASCII', async () => {
    const open = await app.addWebhook({ secret: null });
    const row = await headersOf(
      ['X-A: 1', 'X-A: 2', 'X-Empty:', 'X-Name: caf\xc3\xa9', 'Content-Type: text/\xe9'],
      open,
    );
    const text = row.headers.toString();
    expect(text).toContain('x-a: 1\nx-a: 2\nx-empty: \n');
    expect(text.split('\n')).toHaveLength(8);
    expect(row.content_type).toMatch(/^text\//);
  });
});
