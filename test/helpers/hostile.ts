/** An event and a rejected request whose texts try to control a terminal, break out of a header or HTML, or run in a browser. */
import type { TestApp, TestWebhook } from './app.ts';
import type { TestPerson } from './people.ts';
import { rawRequest, signatureOf } from './requests.ts';
import { until } from './wait.ts';

/** Terminal controls: clear, rename the window, overwrite the line, by C0, C1 and direction overrides. */
export const CONTROLS = '\x1b[2J\x1b]0;owned\x07\r\b\x7f\u009b31m\u202egpj.exe\u2066';
export const MARKUP = '<script>alert(1)</script><img src=x onerror="alert(1)">\'';
export const BODY = Buffer.concat([Buffer.from(`${CONTROLS}\n${MARKUP}\n`), Buffer.from([0x9b, 0xff])]);
/** Characters that no output for people may contain. */
export const OBEYED = /[^\P{Cc}\n\t]|\p{Bidi_Control}/u;

export interface HostileTexts {
  webhook: TestWebhook;
  eventId: string;
  rejectionId: string;
}

/** Sends BODY twice: once stored, once rejected for its signature. Both requests declare a script as content type. */
export async function sendHostileTexts(app: TestApp, viewer: TestPerson): Promise<HostileTexts> {
  const webhook = await app.addWebhook({ name: `${MARKUP} \u202egpj` });
  const post = async (signature: string) => {
    const head = [
      `POST ${webhook.path} HTTP/1.1`,
      'Host: weir',
      `Content-Length: ${BODY.length}`,
      `Content-Type: text/javascript; a="\u202e${MARKUP}\u009b31m"`,
      `X-Hostile: ${CONTROLS.slice(CONTROLS.indexOf('\u009b'))}${MARKUP}`,
      `X-Hub-Signature-256: ${signature}`,
    ];
    return rawRequest(app.port, Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), BODY]));
  };
  const stored = await post(signatureOf(webhook.secret!, BODY));
  if (stored?.status !== 202) throw new Error(`the event was answered ${stored?.text}`);
  await post(signatureOf('another', BODY));
  const list = () => viewer.api('GET', `/api/v1/rejections?webhook_id=${webhook.id}`);
  const rejectionId = await until(async () => (await list()).body.items[0]?.id as string);
  return { webhook, eventId: JSON.parse(String(stored.body)).id, rejectionId };
}
