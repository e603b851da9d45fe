/**
 * Messages of the Model Context Protocol: on stdio one a line, over HTTP with header fields and in events. Without the SDK, so that the
 * command loads little.
 */
import { createInterface } from 'node:readline';
import { type CommandIo, printText } from '../../base/command/io.ts';
import type { CredentialReader } from '../../deliver/client/credential.ts';

/** A request, or without an id a notification. */
export interface RpcMessage {
  jsonrpc: '2.0';
  id?: string | number;
  method: string;
  params?: { [member: string]: unknown; _meta?: Record<string, unknown> };
}

/** A message that awaits an answer. */
export type RpcRequest = RpcMessage & { id: string | number };

/** An answer to a request. A notification has `method` instead. */
export interface RpcReply {
  jsonrpc: '2.0';
  id?: string | number | null;
  [member: string]: unknown;
}

/** What the bridge and the channel get. */
export interface ProgramParts {
  url: URL;
  credential: CredentialReader;
  /** Also events of webhooks that do not verify their requests. */
  unverified: boolean;
  send: (reply: RpcReply) => void;
  /** Prints a message for people. */
  report: (message: string) => void;
}

/** Error codes of JSON-RPC 2.0, section 5.1, which leaves -32000 to -32099 to servers. */
const [PARSE_ERROR, SERVER_ERROR] = [-32_700, -32_000];
export const [METHOD_NOT_FOUND, INVALID_PARAMS] = [-32_601, -32_602];

/**
 * Reads messages from standard input, one a line. A line that is not a message is answered with an error. Answers of the client are ignored,
 * since the program asks nothing.
 * @param onFault called for a line that is not a message
 */
export function openStdio(
  { stdin, stdout }: Pick<CommandIo, 'stdin' | 'stdout'>,
  onMessage: (message: RpcMessage) => void,
  onFault: () => void,
) {
  const send = (reply: RpcReply) => printText({ stdout }, `${JSON.stringify(reply)}\n`);
  const lines = createInterface({ input: stdin, crlfDelay: Number.POSITIVE_INFINITY });
  lines.on('line', (line) => {
    const message = line === '' ? 'ignored' : parse(line);
    if (message === 'ignored') return;
    if (message !== null) return onMessage(message);
    onFault();
    const text = 'This line is not a JSON-RPC message: send one object with jsonrpc 2.0 a line.';
    send({ jsonrpc: '2.0', id: null, error: { code: PARSE_ERROR, message: text } });
  });
  return { send, close: () => lines.close() };
}

function parse(line: string): RpcMessage | 'ignored' | null {
  try {
    const { jsonrpc, id, method, params, ...rest } = JSON.parse(line);
    const isId = id === undefined || typeof id === 'string' || typeof id === 'number';
    const isCall = typeof method === 'string' && (params === undefined || Object(params) === params);
    if (jsonrpc !== '2.0' || !isId) return null;
    if (isCall) return { jsonrpc, method, ...(id !== undefined && { id }), ...(params !== undefined && { params }) };
    return 'result' in rest || 'error' in rest ? 'ignored' : null;
  } catch {
    return null;
  }
}

/** A message without an id is a notification. */
export function isRequest(message: RpcMessage): message is RpcRequest {
  return message.id !== undefined;
}

/** Member of `_meta` in which a request states its revision, since 2026-07-28. */
export const REVISION = 'io.modelcontextprotocol/protocolVersion';

/** The header fields that repeat members of a request, since 2026-07-28; before, the negotiated revision. */
export function fieldsOf({ method, params }: RpcRequest, negotiated: string | undefined): Record<string, string> {
  const stated = params?._meta?.[REVISION];
  if (stated === undefined) return negotiated === undefined ? {} : { 'MCP-Protocol-Version': negotiated };
  const name = params?.name ?? params?.uri;
  const fields = {
    'MCP-Protocol-Version': stated,
    'Mcp-Method': method,
    ...(name !== undefined && { 'Mcp-Name': name }),
  };
  return Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, fieldValue(String(value))]));
}

/** Encodes text that a header field cannot hold (MCP 2026-07-28, Streamable HTTP, value encoding). */
function fieldValue(value: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !/^=\?base64\?.*\?=$/.test(value);
  return isPlain ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

/** Reads the messages of a stream of server-sent events: notifications, and at the end the answer. */
export function eventReader(onNotification: (notification: RpcReply) => void) {
  const decoder = new TextDecoder();
  let rest = '';
  /** The last message that has no method. */
  let last: unknown;
  const add = (chunk: Buffer) => {
    const events = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n\n');
    rest = events.pop()!;
    for (const event of events) {
      // The SDK writes a message as one line, in which the line separators of Unicode are text. Comments keep the connection alive.
      const message = jsonOf(/^data: ([^\n]*)/m.exec(event)?.[1]);
      if (message?.method === undefined) last = message ?? last;
      else onNotification(message);
    }
  };
  return { add, last: () => last };
}

function jsonOf(text = ''): RpcReply | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Why a request has no answer of the protocol. `code` and `detail` as in a problem document. */
export interface Failure {
  code: string;
  detail: string;
  [member: string]: unknown;
}

/** Answers a request that failed: the call of a tool with a result, which the model sees, any other request with an error of the protocol. */
export function failed({ id, method, params }: RpcRequest, failure: Failure): RpcReply {
  if (method === 'tools/call') {
    const content = [{ type: 'text', text: JSON.stringify(failure) }];
    // Required since 2026-07-28.
    const type = params?._meta?.[REVISION] === undefined ? {} : { resultType: 'complete' };
    return { jsonrpc: '2.0', id, result: { ...type, isError: true, content } };
  }
  return { jsonrpc: '2.0', id, error: { code: SERVER_ERROR, message: failure.detail, data: failure } };
}
