/** A client of GET /api/v1/stream, as a browser's EventSource reads it. */
import { until } from './wait.ts';

interface Frame {
  event: string;
  /** Undefined: the field was not sent. */
  id: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  data: any;
}

export interface TestStream {
  status: number;
  headers: Headers;
  /** Frames so far. */
  frames: Frame[];
  comments: string[];
  /** Milliseconds that the server requests before a reconnect. */
  retryMs: number | null;
  /** Whether the server has ended the stream. */
  ended: boolean;
  /** Data of the frames of this event, so far. */
  of(event: string): Frame['data'][];
  /** Resolves with the first frame of this event that `suits`, including past ones. */
  next(event: string, suits?: (data: Frame['data']) => boolean): Promise<Frame>;
  leave(): void;
}

/** Resolves when the response head is received. */
export async function openStream(url: string, headers: Record<string, string>): Promise<TestStream> {
  const leaving = new AbortController();
  const response = await fetch(url, { headers: { accept: 'text/event-stream', ...headers }, signal: leaving.signal });
  const frames: Frame[] = [];
  const stream: TestStream = {
    status: response.status,
    headers: response.headers,
    frames,
    comments: [],
    retryMs: null,
    ended: false,
    of: (event) => frames.filter((frame) => frame.event === event).map(({ data }) => data),
    next: (event, suits = () => true) =>
      until(() => frames.find((frame) => frame.event === event && suits(frame.data))),
    leave: () => leaving.abort(),
  };
  void read(response, stream).catch(() => {
    stream.ended = true;
  });
  return stream;
}

async function read(response: Response, stream: TestStream): Promise<void> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body!) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) take(block, stream);
  }
  stream.ended = true;
}

function take(block: string, stream: TestStream): void {
  const fields = block.split('\n').map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trimStart()] as const;
  });
  const field = (name: string) => fields.find(([candidate]) => candidate === name)?.[1];
  if (field('') !== undefined) stream.comments.push(field('')!);
  if (field('retry') !== undefined) stream.retryMs = Number(field('retry'));
  const event = field('event');
  if (event !== undefined) stream.frames.push({ event, id: field('id'), data: JSON.parse(field('data')!) });
}
