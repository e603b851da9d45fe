/** Signed requests from the documentation and the libraries of senders. */
import { describe, expect, test } from 'vitest';
import { keyOf, publicKeyOf } from '../../../server/model/signatures/keys.ts';
import { presetNamed } from '../../../server/model/signatures/presets.ts';
import { type SignedTestRequest, verifies } from '../../helpers/signed.ts';

const published: [name: string, secret: string, request: SignedTestRequest][] = [
  [
    'github',
    "It's a Secret to Everybody",
    {
      headers: {
        'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      },
      body: Buffer.from('Hello, World!'),
    },
  ],
  [
    'slack',
    '8f742231b10e8888abcd99yyyzzz85a5',
    {
      headers: {
        'x-slack-request-timestamp': '1531420618',
        'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      },
      body: Buffer.from(
        'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
      ),
    },
  ],
  [
    'standard-webhooks',
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    {
      headers: {
        'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'webhook-timestamp': '1614265330',
        'webhook-signature':
          'v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,MzJsNDcyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE= v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
      },
      body: Buffer.from('{"test": 2432232314}'),
    },
  ],
  [
    'twilio',
    '12345',
    {
      headers: { 'x-twilio-signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=' },
      body: Buffer.from(
        'ToCity=&To=%2B18005551212&Digits=1234&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE',
      ).subarray('ToCity=&'.length),
      url: 'https://mycompany.com/myapp.php?foo=1&bar=2',
    },
  ],
  [
    'twilio',
    '12345',
    {
      headers: { 'x-twilio-signature': 'a9nBmqA0ju/hNViExpshrM61xv4=' },
      body: Buffer.from('{"property": "value", "boolean": true}'),
      url: 'https://mycompany.com/myapp.php?foo=1&bar=2&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620',
    },
  ],
];

/** From the tests of SendGrid's library. */
const sendgrid = {
  key: 'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==',
  request: {
    headers: {
      'x-twilio-email-event-webhook-signature':
        'MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=',
      'x-twilio-email-event-webhook-timestamp': '1600112502',
    },
    body: Buffer.from(
      `${JSON.stringify([
        {
          email: 'hello@world.com',
          event: 'dropped',
          reason: 'Bounced Address',
          sg_event_id: 'ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA',
          sg_message_id: 'LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0',
          'smtp-id': '<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>',
          timestamp: 1600112492,
        },
      ])}\r\n`,
    ),
  },
};

/**
 * Key: svix/svix-webhooks, README.md. Request: server/svix-server/src/worker.rs, where two tests sign one message, with a secret (v1)
 * and with a private key (v1a). The header has both signatures, as in the example of the specification.
 */
const standardWebhooks = {
  key: 'whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=',
  request: {
    headers: {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature':
        'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==',
    },
    body: Buffer.from('{"test": 2432232314}'),
  },
};

describe('a request that the sender publishes as an example verifies', () => {
  test.each(published)('%s', (name, secret, request) => {
    const { definition } = presetNamed(name)!;
    expect(verifies(definition, [keyOf(definition, Buffer.from(secret))], request)).toBe(true);
    expect(verifies(definition, [keyOf(definition, Buffer.from(`${secret}BBBB`))], request)).toBe(false);
  });

  test.each([
    ['sendgrid', presetNamed('sendgrid')!.definition, sendgrid],
    ['standard-webhooks', presetNamed('standard-webhooks')!.publicKeyDefinition!, standardWebhooks],
  ])('%s with a public key', (_, definition, { key: given, request }) => {
    const key = publicKeyOf(definition, given)!;
    expect(verifies(definition, [key], request)).toBe(true);
    expect(verifies(definition, [key], { ...request, body: Buffer.from('[]') })).toBe(false);
  });
});
