/** Agent client of the benches: claims and acks over keep-alive connections. */
import { Agent, request } from 'node:http';
import { CommandError } from '../../server/base/command/io.ts';
import { AGENT_SESSION_SECONDS } from '../../server/manage/auth/agent.ts';

/** The fields of a claimed delivery that a bench uses. */
export interface BenchDelivery {
  receipt: string;
  event: { id: string; body: string };
}

interface ClaimOrder {
  max: number;
  waitSeconds: number;
  /** Acknowledged by the same request. */
  ack?: readonly BenchDelivery[];
}

export type AgentClient = Awaited<ReturnType<typeof openBenchAgent>>;

/** Longer than any window, so that no lease expires within one. */
const LEASE_SECONDS = 600;

/** Opens a client. @param credential exchanged for a session at once, and again when half of the session's time is over */
export async function openBenchAgent(origin: string, credential: string) {
  const agent = new Agent({ keepAlive: true });
  const post = <Answer>(path: string, token: string, body: object) => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` };
    return postTo<Answer>(agent, `${origin}/api/v1/agent/${path}`, headers, JSON.stringify(body));
  };
  const openSession = async () => {
    const renewAtMs = performance.now() + (AGENT_SESSION_SECONDS / 2) * 1000;
    const { access_token: token } = await post<{ access_token: string }>('session', credential, {});
    return { token, renewAtMs };
  };
  let session = openSession();
  await session;
  const currentToken = async () => {
    if ((await session).renewAtMs < performance.now()) session = openSession();
    return (await session).token;
  };
  return {
    /** Rejects with CommandError when the response is not 200, and when a lease of `ack` was lost. */
    claim: async ({ max, waitSeconds, ack = [] }: ClaimOrder) => {
      const acked = ack.length > 0 && { ack: ack.map(({ receipt }) => receipt) };
      const order = { max, wait_seconds: waitSeconds, lease_seconds: LEASE_SECONDS, ...acked };
      const answer = await post<{ deliveries: BenchDelivery[]; settled?: { gone: string[] } }>(
        'deliveries/claim',
        await currentToken(),
        order,
      );
      requireNone(answer.settled?.gone, ack.length);
      return answer.deliveries;
    },
    /** Rejects with CommandError when a lease was lost. */
    ack: async (deliveries: readonly BenchDelivery[]) => {
      const receipts = deliveries.map(({ receipt }) => receipt);
      const { gone } = await post<{ gone: string[] }>('deliveries/ack', await currentToken(), { receipts });
      requireNone(gone, receipts.length);
    },
    /** Closes every connection; calls in flight reject. */
    close: () => agent.destroy(),
    /** The access token. */
    token: currentToken,
  };
}

function requireNone(gone: readonly string[] = [], receipts: number): void {
  if (gone.length > 0) throw new CommandError(`${gone.length} of ${receipts} leases were lost`);
}

/** Posts a body. Resolves with the JSON of a 200 or 202 response; rejects with CommandError for another status. */
export function postTo<Answer>(
  agent: Agent,
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const fields = { ...headers, 'Content-Length': Buffer.byteLength(body) };
    const call = request(url, { method: 'POST', agent, headers: fields }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const answer = Buffer.concat(chunks).toString('utf8');
        if ([200, 202].includes(response.statusCode!)) resolve(JSON.parse(answer));
        else reject(new CommandError(`${url} answered ${response.statusCode}: ${answer}`));
      });
    });
    call.once('error', reject);
    call.end(body);
  });
}
