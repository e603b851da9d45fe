/** An AI agent for tests: the official client, which checks every answer against the output schema of its tool. */
import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  body: any;
}

interface ToolReply {
  isError: boolean;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  data: any;
}

/** A busy machine may take longer than the 60 s that the SDK waits. */
const TIMEOUT_MS = 240_000;

export class McpAgent {
  readonly client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });

  /** Connects and reads the list of tools. */
  static async at(transport: Transport): Promise<McpAgent> {
    const agent = new McpAgent();
    await agent.client.connect(transport, { timeout: TIMEOUT_MS });
    await agent.tools();
    return agent;
  }

  async tools() {
    return (await this.client.listTools(undefined, { timeout: TIMEOUT_MS })).tools;
  }

  /** `data` of an error is its problem document. */
  async call(name: string, given: Record<string, unknown> = {}): Promise<ToolReply> {
    const reply = await this.client.callTool({ name, arguments: given }, { timeout: TIMEOUT_MS });
    const { text } = reply.content[0] as { text: string };
    const isError = reply.isError === true;
    return { isError, text, data: isError ? JSON.parse(text) : reply.structuredContent };
  }

  /** Calls a tool that must succeed. */
  async done(name: string, given: Record<string, unknown> = {}): Promise<ToolReply['data']> {
    const { isError, text, data } = await this.call(name, given);
    if (isError) throw new Error(`${name} failed: ${text}`);
    return data;
  }

  close(): Promise<void> {
    return this.client.close();
  }
}

/** @param token any bearer token that /mcp takes */
export function connect(url: string, token: string): Promise<McpAgent> {
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  return McpAgent.at(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit }));
}

/** One POST without the SDK. */
export async function post(
  url: string,
  token: string | null,
  message: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: typeof message === 'string' ? message : JSON.stringify(message),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) };
}

/** A call of a tool as a JSON-RPC message. */
export function toolCall(name: string, given: object = {}) {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: given } };
}
