/** Checks of Node, the C library and the kernel limits. */
import { readFileSync } from 'node:fs';
import { advice, type CheckTable, ok, problem } from '../../model/check.ts';

export interface MachineFacts {
  node: string;
  /** Null when the C library is not glibc. */
  glibc: string | null;
  /** Why the uWebSockets.js binary does not load; null when it loads. */
  binaryError: string | null;
  /** Contents of kernel files; null when the file does not exist. */
  migrateReq: string | null;
  somaxconn: string | null;
  limits: string | null;
}

/** The listen backlog that uWebSockets.js requests. */
const BACKLOG = 512;
/** Below this limit a process soon runs out of descriptors: each connection takes one. */
const OPEN_FILES_MIN = 8_192;

export async function readMachine(): Promise<MachineFacts> {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return {
    node: process.versions.node,
    glibc: report.header?.glibcVersionRuntime ?? null,
    binaryError: await import('uWebSockets.js').then(
      () => null,
      (error: Error) => error.message.split('\n')[0]!,
    ),
    migrateReq: readOrNull('/proc/sys/net/ipv4/tcp_migrate_req'),
    somaxconn: readOrNull('/proc/sys/net/core/somaxconn'),
    // Node has already raised its soft limit to the hard limit, and the serving processes inherit it.
    limits: readOrNull('/proc/self/limits'),
  };
}

export const machineChecks = {
  node({ node, glibc, binaryError }) {
    const here = `Node ${node}, ${glibc === null ? 'no glibc' : `glibc ${glibc}`}`;
    if (binaryError === null) return ok(`${here}: the binary of uWebSockets.js loads`);
    return problem(
      `${here}: the binary of uWebSockets.js does not load: ${binaryError}`,
      'use Node 20.19 or newer with glibc 2.27, Node 22.12 or newer, 24 or 25 with glibc 2.38, or the container image; then npm run setup',
    );
  },
  open_files({ limits }) {
    const soft = /^Max open files\s+(\S+)/m.exec(limits ?? '')?.[1] ?? 'unlimited';
    const finding = `each process may open ${soft} files, including connections`;
    if (soft === 'unlimited' || Number(soft) >= OPEN_FILES_MIN) return ok(finding);
    return advice(finding, 'raise the hard limit: ulimit -Hn 65536, or LimitNOFILE=65536 in a systemd unit');
  },
  somaxconn({ somaxconn }) {
    const backlog = Math.min(Number(somaxconn ?? BACKLOG), BACKLOG);
    const finding = `${backlog} new connections may wait for each process (net.core.somaxconn ${somaxconn?.trim() ?? 'unknown'})`;
    return backlog === BACKLOG ? ok(finding) : advice(finding, 'sysctl -w net.core.somaxconn=4096');
  },
  tcp_migrate_req({ migrateReq }) {
    if (migrateReq === null)
      return advice(
        'this kernel cannot move waiting connections to another process: a rolling restart under load resets a few',
        'use Linux 5.14 or newer, or restart behind a proxy that retries',
      );
    if (migrateReq.trim() !== '0') return ok('connections that wait in a closing listener move to another process');
    return advice(
      'connections that wait in a closing listener are reset: a rolling restart under load resets a few',
      'sysctl -w net.ipv4.tcp_migrate_req=1 (per network namespace; compose.yaml sets it)',
    );
  },
} satisfies CheckTable<MachineFacts>;

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
