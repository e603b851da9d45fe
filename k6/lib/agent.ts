/** An agent of a virtual user: signs in with the credential of the agent, claims and acknowledges. */
import http from 'k6/http';
import { objectionToAgent } from './answers.ts';
import { apiUrl } from './settings.ts';

/** The fields of a claimed delivery that the script uses. */
export interface Claimed {
  receipt: string;
  event: { received_at: string };
}

/** How long a claim waits for the first delivery. */
const CLAIM_WAIT_SECONDS = 1;
/** Sessions last 15 minutes. */
const SESSION_USED_MS = 10 * 60_000;

/** Opens an agent. Every call throws an Error when the response is not 200, which fails the iteration. @param url that of the webhook */
export function openAgent(url: string, credential: string) {
  let session = { token: '', endsMs: 0 };

  function request<Answer>(method: string, path: string, token: string, body: object | null): Answer {
    const name = `${method} /api/v1/agent/${path}`;
    const { status, body: text } = http.request(method, apiUrl(url, `agent/${path}`), body && JSON.stringify(body), {
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      responseType: 'text',
      tags: { name },
    });
    if (status !== 200) throw new Error(`${name} returned ${status || 'no response'}: ${text}`);
    return JSON.parse(String(text)) as Answer;
  }
  const post = <Answer>(path: string, token: string, body: object) => request<Answer>('POST', path, token, body);

  function token(): string {
    if (session.endsMs < Date.now()) {
      const opened = post<{ access_token: string }>('session', credential, {});
      session = { token: opened.access_token, endsMs: Date.now() + SESSION_USED_MS };
    }
    return session.token;
  }

  return {
    /** Throws an Error with the reason when the agent cannot be measured. */
    check: (): void => {
      const me = request<{ pending: number; paused: boolean; webhooks: { id: string }[] }>('GET', 'me', token(), null);
      const objection = objectionToAgent(me, url);
      if (objection !== null) throw new Error(`Nothing was measured: ${objection}`);
    },
    claim: (max: number): Claimed[] =>
      post<{ deliveries: Claimed[] }>('deliveries/claim', token(), { max, wait_seconds: CLAIM_WAIT_SECONDS })
        .deliveries,
    /** Receipts that were settled, and those whose lease was lost. */
    ack: (receipts: readonly string[]) =>
      post<{ done: string[]; gone: string[] }>('deliveries/ack', token(), { receipts }),
  };
}
