/**
 * Answers one MCP message with the SDK: in the revision 2026-07-28, or in one that begins with `initialize`. Loaded by the first request to
 * /mcp, because the SDK takes memory that an installation without AI agents need not spend.
 */
import {
  createMcpHandler,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { release } from '../../base/files/build.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { check, invalidBody } from '../../base/http/issues.ts';
import { type Problem, problemDocument } from '../../base/http/problem.ts';
import type { Reader } from '../auth/person.ts';
import { eventTools } from './event-tools.ts';
import { leaseTools } from './lease-tools.ts';
import { issueTools, managementTools } from './management-tools.ts';
import { rejectionTools } from './rejection-tools.ts';
import { type CallRecord, isFor, isListedFor, listing, type Tool, type ToolOperations } from './tool.ts';
import { SECURITY, toolResult } from './untrusted.ts';

const tools: readonly Tool[] = [...leaseTools, ...eventTools, ...managementTools, ...rejectionTools, ...issueTools];
const listings = new Map(tools.map((tool) => [tool, listing(tool)]));

/** The SDK validates answers of clients to requests of the server. This server sends none, and the default creates an Ajv each time. */
const noValidator = {
  getValidator: () => {
    throw new Error('this server asks clients nothing');
  },
};

/** How long a client may keep the list of tools and the description of the server. They change with the role of a user, and with releases. */
const KEPT = { ttlMs: 300_000, cacheScope: 'private' } as const;

/** How often a call that waits is reported to a client that gave a progress token. */
const PROGRESS_MS = 1_000;

interface McpRequest {
  exchange: Exchange;
  /** Who presented the bearer token. */
  requester: Reader;
  /** The JSON-RPC message, not yet validated. */
  message: unknown;
  operations: ToolOperations;
  /** Records a completed call of an agent. Never rejects: a failure to record is logged. */
  recordCall(call: CallRecord): Promise<void>;
}

/** A failure of a handler, for the log. The SDK would send the message of any error to the client. */
interface Failure {
  error?: unknown;
}

/** Sends the answer. Rejects for bugs. */
export async function serveMcp(request: McpRequest): Promise<void> {
  const { exchange, message } = request;
  if (Array.isArray(message)) return exchange.json(400, noBatches);
  const { id, method, params }: { id?: unknown; method?: unknown; params?: unknown } = Object(message);
  // The SDK would hold a stream open for notices that this server never sends.
  if (method === 'subscriptions/listen') return exchange.json(404, noSubscriptions(id));
  const failure: Failure = {};
  const server = serverFor(request, failure);
  const asked = webRequest(exchange);
  try {
    const response = (await isLegacyRequest(asked, message))
      ? await answerEarlier(server, asked, message, Object(Object(params)._meta).progressToken !== undefined)
      : await createMcpHandler(() => server, { legacy: 'reject' }).fetch(asked, { parsedBody: message });
    const type = response.headers.get('content-type') ?? 'text/plain';
    if (type === 'text/event-stream') await stream(exchange, response.body!);
    else if (failure.error === undefined) exchange.answer(response.status, type, await response.text());
    if (failure.error !== undefined) exchange.fail(failure.error);
  } finally {
    await server.close();
  }
}

function serverFor(request: McpRequest, failure: Failure): Server {
  const { requester } = request;
  const server = new Server(
    { name: 'weir', title: 'Weir', version: release() },
    {
      capabilities: { tools: {} },
      instructions: instructionsFor(requester.kind),
      jsonSchemaValidator: noValidator,
      cacheHints: { 'tools/list': KEPT, 'server/discover': KEPT },
    },
  );
  const listed = tools.filter((tool) => isListedFor(tool, requester));
  server.setRequestHandler('tools/list', () => ({ tools: listed.map((tool) => listings.get(tool)!) }));
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    try {
      return await callTool(params, request, context);
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      failure.error = error;
      throw new ProtocolError(ProtocolErrorCode.InternalError, 'The call failed inside Weir.');
    }
  });
  return server;
}

/** Answers in a revision before 2026-07-28: as JSON, or as a stream if progress was asked for. */
async function answerEarlier(server: Server, asked: Request, message: unknown, streams: boolean): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: !streams });
  await server.connect(transport);
  return transport.handleRequest(asked, { parsedBody: message });
}

/** Sends server-sent events as they come. A client that leaves ends the call that it waits for, see Exchange.whenGone, and so the stream. */
async function stream(exchange: Exchange, events: ReadableStream<Uint8Array>): Promise<void> {
  // Without this header nginx buffers a response before passing it on.
  exchange.setHeader('x-accel-buffering', 'no');
  const answer = exchange.stream('text/event-stream');
  for await (const event of events) answer?.write(Buffer.from(event).toString());
  answer?.complete();
}

/** The revision 2025-06-18 removed batches. One request is one call, as the rate limit counts it. */
const noBatches = {
  jsonrpc: '2.0',
  id: null,
  error: {
    code: ProtocolErrorCode.InvalidRequest,
    message: 'Batches are not supported: send one message per request.',
  },
};

function noSubscriptions(id: unknown) {
  const error = { code: ProtocolErrorCode.MethodNotFound, message: 'This server has no subscriptions.' };
  return { jsonrpc: '2.0', id: typeof id === 'string' || typeof id === 'number' ? id : null, error };
}

/** The header fields that the SDK checks. */
const FIELDS = ['accept', 'content-type', 'mcp-method', 'mcp-name', 'mcp-protocol-version'] as const;

function webRequest(exchange: Exchange): Request {
  const headers = FIELDS.flatMap((name): [string, string][] => {
    const value = exchange.header(name);
    return value === undefined ? [] : [[name, value]];
  });
  return new Request('http://localhost/mcp', { method: 'POST', headers });
}

/** Longest part of an unknown tool's name that its error repeats. */
const NAME_CHARACTERS_SHOWN = 100;

type CallParams = { name: string; arguments?: unknown };

async function callTool({ name, arguments: given = {} }: CallParams, request: McpRequest, { mcpReq }: ServerContext) {
  const tool = tools.find((candidate) => candidate.name === name);
  if (tool === undefined || !isFor(tool, request.requester)) {
    const names = tools.filter((one) => isListedFor(one, request.requester)).map((one) => one.name);
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `There is no tool ${JSON.stringify(name.slice(0, NAME_CHARACTERS_SHOWN))} for this bearer token; call one of: ${names.join(', ')}.`,
    );
  }
  const input = check(tool.input, given);
  if ('issues' in input) return toolError(invalidBody(input), request.exchange);
  const progress = reportProgress(tool.waitSeconds?.(input.data), mcpReq);
  const answer = await tool.run(input.data, request.operations).finally(() => clearInterval(progress));
  if (answer.kind === 'problem') return toolError(answer, request.exchange);
  // The client has left and reads nothing.
  if (answer.kind !== 'answer') return { content: [] };
  if (tool.recordOf !== undefined) await request.recordCall(tool.recordOf(answer.structured));
  return toolResult(answer, Object(input.data).as_text === true);
}

/** Reports the seconds of a call that waits, if its client gave a progress token. */
function reportProgress(total: number | undefined, { _meta, notify }: ServerContext['mcpReq']) {
  const progressToken = _meta?.progressToken;
  if (total === undefined || progressToken === undefined) return undefined;
  let progress = 0;
  return setInterval(() => {
    progress += PROGRESS_MS / 1000;
    const params = { progressToken, progress, total, message: 'No event yet.' };
    // Rejects if the client has left.
    notify({ method: 'notifications/progress', params }).catch(() => {});
  }, PROGRESS_MS);
}

/** The problem document of the API, which says how to fix the call. */
function toolError(given: Problem, { requestId }: Exchange) {
  const { retryAfterSeconds: retry_after_seconds } = given;
  const document = { ...problemDocument(given, requestId), retry_after_seconds };
  return { isError: true, content: [{ type: 'text' as const, text: JSON.stringify(document) }] };
}

const INTRODUCTION =
  'Weir receives webhooks: HTTP requests by which other services report that something happened, such as a paid order. It stores each one as an event.';

const AGENT = `You are an agent of Weir: each event of the webhooks that you are subscribed to is delivered to you.
Work in this loop:
1. wait_for_events leases the next deliveries to you and returns them with receipts. If it returns no event, call it again.
2. Do the work that your user wants done for such an event.
3. acknowledge each receipt when its work is complete, or reject it when the work failed: Weir then delivers it again later.
Do both before leased_until. If the work takes longer, call extend_lease in time. A delivery that is neither acknowledged nor rejected is delivered again, so the same event_id may arrive more than once: do not do its work twice.`;

const USER = `You act with the API token of a user of Weir: you can look at webhooks and events, and change what the role of the token allows. Only agents wait for events and acknowledge them; they connect with an agent credential.`;

function instructionsFor(kind: 'agent' | 'user'): string {
  return [INTRODUCTION, kind === 'agent' ? AGENT : USER, SECURITY].join('\n\n');
}
