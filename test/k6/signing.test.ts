import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { payloadOf } from '../../k6/lib/payloads.ts';
import { defaultScheme, isRepeatable, isSupported, type Primitives, signatureHeaders } from '../../k6/lib/signing.ts';
import { keysOf } from '../../server/model/signatures/keys.ts';
import { presets } from '../../server/model/signatures/presets.ts';
import { URL_OF_HOOK, verifies } from '../helpers/signed.ts';

/** Like k6's functions: b64decode rejects padding and impossible lengths. */
const primitives: Primitives = {
  hmac: (hash, key, data, encoding) =>
    createHmac(hash, typeof key === 'string' ? key : new Uint8Array(key))
      .update(data)
      .digest(encoding),
  b64decode(text) {
    if (!/^[A-Za-z0-9+/]+$/.test(text) || text.length % 4 === 1) throw new Error('illegal base64 data');
    return new Uint8Array(Buffer.from(text, 'base64')).buffer;
  },
};

const request = { secret: 'hüsh', url: URL_OF_HOOK, id: 'k6-1', timeMs: 1_760_000_000_000 };

describe('the signature of the default scheme', () => {
  test.each([
    ['nothing', ''],
    ['one byte', '0'],
    ['JSON', '{"a":1}'],
    ['JSON with line ends', '{\r\n"a": 1\n}\n'],
    ['more than ASCII', '{"größe":"水 🌊"}'],
    ['a kibibyte', payloadOf(1024, 1)],
    ['a mebibyte', payloadOf(1_048_576, 1)],
  ])('of %s is sha256= and the HMAC-SHA256 of its UTF-8 bytes', (_name, body) => {
    const digest = createHmac('sha256', 'hüsh').update(Buffer.from(body, 'utf8')).digest('hex');
    expect(signatureHeaders(defaultScheme, { ...request, body }, primitives)).toEqual({
      'X-Hub-Signature-256': `sha256=${digest}`,
    });
  });

  test('matches a published example', () => {
    // GitHub, «Validating webhook deliveries»: testing the webhook payload validation.
    const published = { ...request, body: 'Hello, World!', secret: "It's a Secret to Everybody" };
    expect(signatureHeaders(defaultScheme, published, primitives)).toEqual({
      'X-Hub-Signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
    });
  });
});

describe('a request signed by a preset', () => {
  // `sha256` names no header: see the default scheme.
  const supported = presets.filter(({ name, definition }) => name !== 'sha256' && isSupported(definition));
  const body = payloadOf(1024, 1);
  const secrets = { text: 'hüsh', hex: '00ff7A'.repeat(8), base64: 'whsec_+/8A/7/xMfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==' };

  test.each(supported.map(({ name, definition }) => [name, definition] as const))(
    '%s verifies, and not with the secret that smoke takes for another',
    (_, definition) => {
      const secret = { ...secrets, 'text-or-base64': secrets.base64 }[definition.secret ?? 'text'];
      const keys = keysOf(definition, Buffer.from(secret));
      const signedWith = (given: string) => ({
        headers: signatureHeaders(definition, { ...request, body, secret: given }, primitives),
        body: Buffer.from(body),
      });
      expect(verifies(definition, keys, signedWith(secret))).toBe(true);
      expect(verifies(definition, keys, signedWith(`${secret}1111`))).toBe(false);
    },
  );

  test('is supported for most senders', () => {
    expect(supported.length).toBeGreaterThan(presets.length / 2);
  });

  test.each([
    ['github', true],
    ['stripe', false],
    ['svix', false],
  ])('of %s can be sent again: %s', (name, repeatable) => {
    expect(isRepeatable(presets.find((preset) => preset.name === name)!.definition)).toBe(repeatable);
  });
});
