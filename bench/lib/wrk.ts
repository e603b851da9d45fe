/** Runs the load generator wrk with a Lua script that is written once, so that the signature is computed once. */
import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { CommandError } from '../../server/base/command/io.ts';
import type { BenchRequest } from '../../server/operate/load/environment.ts';

/** One window of load. Latencies are of closed-loop connections: each connection sends its next request after the response. */
export interface WrkWindow {
  requestsPerSecond: number;
  answers2xx: number;
  answersOther: number;
  /** Broken connections, failed reads and writes, and answers that exceeded the timeout. */
  socketErrors: number;
  p50Ms: number;
  p99Ms: number;
}

const TIMEOUT_SECONDS = 10;
const MARK = 'WRK-SUMMARY ';

/** Throws CommandError when wrk is not installed. Call it before starting anything. */
export function requireWrk(): void {
  const { error } = spawnSync('wrk', ['-v']);
  if (error !== undefined) throw new CommandError(`wrk cannot be run (${error.message}); get it: apt-get install wrk`);
}

/**
 * Writes the script for one repeated request. Header values and body must not contain `]==]`.
 * @param paths of the requests, in turns; default: that of the URL
 */
export function writeScript(path: string, { headers, body }: BenchRequest, paths: readonly string[] = []): void {
  if (paths.length > 0) writeFileSync(`${path}.paths`, paths.join('\n'));
  // The text around the path is made once: `wrk.format` for each request took 8 us of the client's time.
  const inTurns = [
    'local paths, place, head, tail = {}, 0, nil, nil',
    `for line in io.lines("${path}.paths") do paths[#paths + 1] = line end`,
    'function init()',
    '  local text = wrk.format(nil, "/PATH")',
    '  local from, to = text:find("/PATH", 1, true)',
    '  head, tail = text:sub(1, from - 1), text:sub(to + 1)',
    'end',
    'function request()',
    '  place = place % #paths + 1',
    '  return head .. paths[place] .. tail',
    'end',
  ];
  // wrk counts every status above 399 as an error.
  const lines = [
    'wrk.method = "POST"',
    `wrk.body = [==[${body}]==]`,
    ...Object.entries(headers).map(([name, value]) => `wrk.headers["${name}"] = [==[${value}]==]`),
    ...(paths.length > 0 ? inTurns : []),
    'function done(summary, latency)',
    '  local e = summary.errors',
    `  io.write('${MARK}', string.format('{"requestsPerSecond":%f,"answers2xx":%d,"answersOther":%d,"socketErrors":%d,',`,
    '    summary.requests * 1e6 / summary.duration, summary.requests - e.status, e.status,',
    '    e.connect + e.read + e.write + e.timeout))',
    `  io.write(string.format('"p50Ms":%f,"p99Ms":%f}\\n', latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))`,
    'end',
  ];
  writeFileSync(path, `${lines.join('\n')}\n`);
}

/** The figures that the script printed last. Throws CommandError when they are missing. */
export function parseWrk(output: string): WrkWindow {
  const line = output.split('\n').find((text) => text.startsWith(MARK));
  if (line === undefined) throw new CommandError(`wrk ended without figures:\n${output}`);
  return JSON.parse(line.slice(MARK.length)) as WrkWindow;
}

/**
 * Runs wrk with one thread: on two cores a second thread changed no figure beyond the noise. Rejects with CommandError, or
 * with AbortError at Ctrl-C.
 */
export async function runWrk(
  { url, script, connections, seconds }: { url: string; script: string; connections: number; seconds: number },
  signal: AbortSignal,
): Promise<WrkWindow> {
  const args = ['-t1', `-c${connections}`, `-d${Math.max(1, Math.round(seconds))}s`];
  const wrk = spawn('wrk', [...args, '--timeout', `${TIMEOUT_SECONDS}s`, '-s', script, url], {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  });
  let output = '';
  for (const pipe of [wrk.stdout, wrk.stderr])
    pipe.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  await new Promise<void>((resolve, reject) => {
    wrk.once('error', reject);
    wrk.once('close', resolve);
  });
  return parseWrk(output);
}
