/** An agent of a virtual user: signs in with the credential of the agent, claims and acknowledges. */
import http from 'k6/http';
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

/** Every call throws an Error when the response is not 200, which fails the iteration. @param url of the webhook */
export function openAgent(url: string, credential: string) {
  let session = { token: '', endsMs: 0 };

  function post<Answer>(path: string, token: string, body: object): Answer {
    const { status, body: text } = http.post(apiUrl(url, `agent/${path}`), JSON.stringify(body), {
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      responseType: 'text',
      tags: { name: `POST /api/v1/agent/${path}` },
    });
    if (status !== 200) throw new Error(`POST agent/${path} returned ${status || 'no response'}: ${text}`);
    return JSON.parse(String(text)) as Answer;
  }

  function token(): string {
    if (session.endsMs < Date.now()) {
      const opened = post<{ access_token: string }>('session', credential, {});
      session = { token: opened.access_token, endsMs: Date.now() + SESSION_USED_MS };
    }
    return session.token;
  }

  return {
    /** Throws at once when the credential is wrong. */
    signIn: token,
    claim: (max: number): Claimed[] =>
      post<{ deliveries: Claimed[] }>('deliveries/claim', token(), { max, wait_seconds: CLAIM_WAIT_SECONDS })
        .deliveries,
    /** Receipts that were settled, and those whose lease was lost. */
    ack: (receipts: readonly string[]) =>
      post<{ done: string[]; gone: string[] }>('deliveries/ack', token(), { receipts }),
  };
}
