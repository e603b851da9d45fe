/**
 * Thread entry point of `weir bench`: a closed loop. Each connection sends the same request again as soon as it has the response. With a rate
 * it is an open loop: requests are sent when they are due, if a connection is free, and latency counts from the due time.
 *
 * Uses plain sockets and request bytes built once, because CPU used by the sender is missing for a Weir on the same machine. CPU time
 * per request of 1 KiB over 256 connections to a bare server (3 rounds, Node 20): this file 13 to 18 us, autocannon (64 packages)
 * 37 to 40, undici 48 to 107, node:http 103 to 128.
 */
import { connect, type Socket } from 'node:net';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { parentPort, workerData } from 'node:worker_threads';

export interface SenderOrder {
  /** Port on 127.0.0.1. */
  port: number;
  /** The complete request, head and body. */
  request: Uint8Array;
  connections: number;
  /** Requests a second of an open loop. */
  perSecond?: number;
}

/** `measure` opens the measuring window. `stop` closes it; each connection closes after its last answer. */
export type SenderCommand = 'measure' | 'stop';

/** Sent once, after the last connection has closed. */
export interface SenderReport {
  /** Number of answers by status, including those outside the window. */
  statuses: Record<string, number>;
  /** Number of broken connections by error name. A broken connection is not reopened. */
  errors: Record<string, number>;
  windowMs: number;
  /** Latencies of the 202 answers in the window, of an open loop of those that were due in it, in microseconds. */
  latenciesUs: RecordableHistogram;
  /** The latencies of an open loop, a histogram for each SLICE_MS of the window in which a request was due. */
  slicesUs?: (RecordableHistogram | undefined)[];
}

const SLICE_MS = 10_000;

/** Interval of an open loop: what is due within it is sent at once. */
const TICK_MS = 1;

const ACCEPTED = 202;
/** Connections without a response this long after `stop` are closed with ETIMEDOUT. */
const ANSWER_TIMEOUT_MS = 10_000;

/** Read buffer shared by all connections: each read is copied out before the next one. */
const inbox = Buffer.allocUnsafe(16_384);

const { port, request, connections, perSecond } = workerData as SenderOrder;
const open = new Set<Socket>();
const statuses: Record<string, number> = {};
const errors: Record<string, number> = {};
let latenciesUs = newHistogram();
let windowFromMs = performance.now();
let windowMs = 0;
let stopping = false;
let slicesUs: (RecordableHistogram | undefined)[] = [];
/** Connections of an open loop without a request; the first has waited longest. */
const free: ((dueMs: number) => void)[] = [];
const firstDueMs = performance.now();
let due = 0;

if (perSecond !== undefined) setInterval(sendDue, TICK_MS).unref();
for (let i = 0; i < connections; i++) openConnection();

parentPort!.on('message', (command: SenderCommand) => {
  if (command === 'measure') {
    latenciesUs = newHistogram();
    slicesUs = [];
    windowFromMs = performance.now();
    return;
  }
  stopping = true;
  windowMs = performance.now() - windowFromMs;
  const late = () => {
    for (const socket of open) socket.destroy(Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' }));
  };
  setTimeout(late, ANSWER_TIMEOUT_MS).unref();
  for (const send of free.splice(0)) send(0);
  reportAtEnd();
});

function openConnection(): void {
  let sentMs = 0;
  let answer = '';
  let error: string | null = 'ECONNRESET';
  const send = (dueMs = performance.now()) => {
    if (stopping) return end();
    sentMs = dueMs;
    socket.write(request);
  };
  const end = () => {
    error = null;
    socket.end();
  };
  const read = (bytes: number) => {
    answer += inbox.toString('latin1', 0, bytes);
    const status = statusOf(answer);
    if (status === null) return true;
    answer = '';
    add(statuses, status);
    if (Number(status) === ACCEPTED && !(stopping && perSecond === undefined)) record(sentMs);
    if (perSecond === undefined || stopping) send();
    else {
      free.push(send);
      sendDue();
    }
    return true;
  };
  const socket = connect({ host: '127.0.0.1', port, onread: { buffer: inbox, callback: read } }, () =>
    perSecond === undefined || stopping ? send() : free.push(send),
  );
  open.add(socket);
  socket.once('error', (cause: NodeJS.ErrnoException) => {
    error &&= cause.code ?? cause.name;
  });
  socket.once('close', () => {
    if (error !== null) add(errors, error);
    open.delete(socket);
    reportAtEnd();
  });
}

/** Sends what is due on free connections. A request that finds none keeps its time, and the next connection that is free sends it. */
function sendDue(): void {
  while (free.length > 0 && !stopping) {
    const dueMs = firstDueMs + (due / perSecond!) * 1000;
    if (dueMs > performance.now()) return;
    due++;
    free.shift()!(dueMs);
  }
}

function record(fromMs: number): void {
  const us = Math.max(1, Math.round((performance.now() - fromMs) * 1000));
  if (perSecond !== undefined) {
    if (fromMs < windowFromMs) return;
    const slice = Math.floor((fromMs - windowFromMs) / SLICE_MS);
    slicesUs[slice] ??= newHistogram();
    slicesUs[slice].record(us);
  }
  latenciesUs.record(us);
}

/** The status of a complete answer, null if bytes are missing. */
function statusOf(answer: string): string | null {
  const headEnd = answer.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(answer)?.[1] ?? 0);
  return answer.length < headEnd + 4 + bodyBytes ? null : answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 202'.length);
}

function reportAtEnd(): void {
  if (!stopping || open.size > 0) return;
  const report: SenderReport = { statuses, errors, windowMs, latenciesUs, slicesUs };
  parentPort!.postMessage(report);
  parentPort!.close();
}

function add(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

function newHistogram(): RecordableHistogram {
  return createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 3 });
}
