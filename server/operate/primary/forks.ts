/** Start parameters of the serving processes: entry file, Node flags, environment and settings; and their output, as lines of the log. */
import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import type { GivenSettings } from '../../base/settings/gather.ts';
import type { Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import type { Setting } from '../../base/settings/values.ts';
import type { Log, LogDestination } from '../../base/telemetry/log.ts';

/**
 * Returns the path of the compiled main.js, derived from the path that started Weir. When that path contains a symbolic link to a release,
 * the link is resolved at each fork: after it changes to another release, new processes run that release.
 * @param own real path of the main.js beside this build.
 * @param startedBy `process.argv[1]`. A link to weir.js itself (npx, /usr/local/bin) has no main.js beside it; the result is then `own`.
 */
export function findEntryFile(own: string, startedBy: string | undefined): string {
  const followed = join(dirname(startedBy ?? '/'), '../main.js');
  try {
    return realpathSync(followed) === own ? followed : own;
  } catch {
    return own;
  }
}

/**
 * Flags of V8. Threads that help with short scavenges take cores from Postgres. Marking the whole heap takes long, so it keeps its threads:
 * without them (--single-threaded-gc), it stops a process with 100,000 webhooks for 119 ms at once instead of 36. After a short slowdown of
 * the machine, pretenuring allocates objects of a request in the old space, where they are garbage until a mark-compact (bench/NOTES.md).
 */
export const gcFlags = ['--no-parallel-scavenge', '--no-allocation-site-pretenuring'];

/** Room for a request line in addition to HEADER_BYTES_MAX of headers. With fewer headers, it may be longer. */
const REQUEST_LINE_BYTES = 2_048;

/** Removes the secrets from an environment: a process gets those that it needs in its start order. */
export const noSecrets = Object.fromEntries(
  Object.entries<Setting>(settingTable).flatMap(([name, { secret }]) => (secret ? [[name, undefined]] : [])),
);

/**
 * Changes to the environment for each serving process. Figures of each are in bench/NOTES.md.
 *
 * uWebSockets.js reads its own limit of a request line with its headers from the environment when it is loaded, and buffers that much of
 * an unfinished one. Above it, it answers 431: on Node 24 every request, on Node 20 those that TCP cuts. Its default of 4,096 bytes is
 * below HEADER_BYTES_MAX; a higher limit than needed is memory that unfinished heads can take.
 *
 * libuv has four threads by default, and libpq connects in them. While Postgres is frozen, connections take all of them for 5 s at a time
 * (connect_timeout), and the spool's writes wait.
 *
 * glibc raises its threshold for mmap to the largest block that was freed, up to 32 MB. Slabs (1 MiB) and COPY buffers (up to 8 MiB) then
 * come from the heap, which keeps their pages after they are freed. A fixed threshold below a slab returns them to the system.
 * @param own environment of the primary: the operator's values are kept.
 * @param headerBytesMax HEADER_BYTES_MAX
 */
export function processEnvironment(own: NodeJS.ProcessEnv, headerBytesMax: number): NodeJS.ProcessEnv {
  return {
    ...noSecrets,
    UWS_HTTP_MAX_HEADERS_SIZE: String(headerBytesMax + REQUEST_LINE_BYTES),
    UV_THREADPOOL_SIZE: own.UV_THREADPOOL_SIZE || '16',
    MALLOC_MMAP_THRESHOLD_: own.MALLOC_MMAP_THRESHOLD_ || '1000000',
  };
}

/**
 * The settings as a process gets them. DATA_DIR is resolved: its default may depend on the user that runs the process. ADMIN_PASSWORD is
 * replaced: the primary alone uses it, and pages show only that it is set. Unknown names stay: the build on disk may know them.
 */
export function givenToProcess(
  { values, directory }: GivenSettings,
  { DATA_DIR, ADMIN_PASSWORD }: Settings,
): GivenSettings {
  const hidden = ADMIN_PASSWORD === undefined ? {} : { ADMIN_PASSWORD: randomBytes(24).toString('base64') };
  return { values: { ...values, DATA_DIR, ...hidden }, directory };
}

/**
 * Configures later forks to run `entryFile`. A link in its path is followed at each fork.
 * @param user null: the user of the primary.
 */
export function prepareForks(entryFile: string, user: { uid: number; gid: number } | null): void {
  const ids = user === null ? {} : { uid: user.uid, gid: user.gid };
  cluster.setupPrimary({
    ...ids,
    exec: entryFile,
    args: [],
    execArgv: gcFlags,
    silent: true,
    serialization: 'advanced',
  });
}

/** Lines within this time of the first one form one log line: V8 writes the trace of a process without memory in many parts. */
const TOGETHER_MS = 100;
const LINES_MAX = 100;
/** Longest line, in UTF-16 units; what is longer is cut into several. Log lines are far shorter. */
const LINE_CHARS_MAX = 1_048_576;

/** A process that could not be started has no streams when no descriptor was left. */
interface WritingProcess {
  pid?: number | undefined;
  stdout?: Readable | null;
  stderr?: Readable | null;
}

/**
 * Forwards log lines unchanged. Any other output becomes a log line, so that the stream stays JSON: one for consecutive lines, such as
 * a stack trace.
 */
export function forwardOutput(
  { pid, stdout, stderr }: WritingProcess,
  { destination, log }: { destination: Pick<LogDestination, 'write'>; log: Log },
): void {
  for (const stream of [stdout, stderr]) {
    if (!stream) continue;
    let rest = '';
    let others: string[] = [];
    let timer: NodeJS.Timeout | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      if (others.length > 0) log('process_output', { process: pid, line: others.join('\n') });
      others = [];
    };
    const add = (line: string) => {
      if (line !== '') others.push(line);
      if (others.length >= LINES_MAX) flush();
      else timer ??= setTimeout(flush, TOGETHER_MS);
    };
    const take = (line: string) => {
      if (stream === stdout && line.startsWith('{')) {
        flush();
        destination.write(`${line}\n`);
      } else add(line);
    };
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop()!;
      for (const line of lines) take(line);
      if (rest.length > LINE_CHARS_MAX) {
        add(rest);
        rest = '';
      }
    });
    stream.on('end', () => {
      // A log line without its end is not JSON: the process was killed while it wrote.
      add(rest);
      flush();
    });
  }
}
