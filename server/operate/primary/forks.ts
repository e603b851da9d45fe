/** Start parameters of the serving processes: entry file, Node flags, environment and settings. */
import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Given } from '../../base/settings/gather.ts';
import type { Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import type { Setting } from '../../base/settings/values.ts';

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
 * Scavenges are short and many: threads that help with them take cores from Postgres. Marking the whole heap is long: left to the event loop
 * (--single-threaded-gc), it stops a process with 100,000 webhooks for 119 ms at once, and 36 with threads, which take 2 % more CPU a request
 * (bench/NOTES.md). A larger nursery (--max-semi-space-size=32) made no difference, and cost 28 MB a process.
 *
 * V8 pretenures allocation sites whose objects survive a scavenge: it allocates them in the old space. A short slowdown of the machine
 * causes this for objects of a request. Their garbage then waits for a mark-compact: 200 to 235 MB in 4 of 15 runs, 150 to 163 MB in
 * 9 of 9 without pretenuring.
 */
export const gcFlags = ['--no-parallel-scavenge', '--no-allocation-site-pretenuring'];

/** Room for a request line beside as many headers as HEADER_BYTES_MAX allows. Beside fewer, it may be longer. */
const REQUEST_LINE_BYTES = 2_048;

/** A process gets the secrets that it needs in its start order, and none in its environment. */
export const noSecrets = Object.fromEntries(
  Object.entries<Setting>(settingTable).flatMap(([name, { secret }]) => (secret ? [[name, undefined]] : [])),
);

/**
 * Changes to the environment for each serving process.
 *
 * uWebSockets.js reads its own limit of a request line with its headers from the environment when it is loaded, and buffers that much of
 * an unfinished one. Above it, it answers 431: on Node 24 every request, on Node 20 those that TCP cuts. Its default of 4,096 bytes is
 * below HEADER_BYTES_MAX. 3,000 connections, each with an unfinished head of this length, took 563 MiB with a limit of 131,072 bytes, and
 * 54 with 18,432 (16,384 + 2,048); 79 when the heads come in pieces, because the buffer doubles.
 *
 * libuv has four threads by default, and libpq connects in them. While Postgres is frozen, the two COPY connections and those of the pool
 * take all of them for 5 s at a time (connect_timeout), and the spool's writes wait. 8 senders during 44 s of a stopped Postgres, beside
 * 4 clients of the API: with 4 threads 1,137 and 1,070 answers 202, p99 9.9 and 12.6 s, up to 7.8 s without any; with 16 threads 5,145,
 * p99 0.3 s, and 3.0 s without any, which is the time limit of a commit.
 *
 * glibc raises its threshold for mmap to the largest block that was freed, up to 32 MB. Slabs (1 MiB) and COPY buffers (up to 8 MiB) then
 * come from the heap, which keeps their pages after they are freed. A fixed threshold below a slab returns them to the system: 169 to 182
 * MB for 184 to 192 after 1 KiB, 1 MiB and 1 KiB again; no more CPU was seen (bench/NOTES.md). A C library other than glibc ignores it.
 * @param own environment of the primary: the operator's values are kept. @param headerBytesMax HEADER_BYTES_MAX
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
export function givenToProcess({ values, directory }: Given, { DATA_DIR, ADMIN_PASSWORD }: Settings): Given {
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
