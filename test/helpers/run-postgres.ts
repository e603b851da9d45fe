/** One Postgres for a run of the tests: the first file that asks for it starts it, the end of the run stops it. */
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { type EmbeddedPostgres, joinEmbeddedPostgres } from '../../server/db/embedded.ts';

/** Two files at a time, each with a few apps of up to six connections. */
const CONNECTIONS_MAX = 150;

declare module 'vitest' {
  interface ProvidedContext {
    /** DATA_DIR of the run's Postgres; empty until the first file joins it. */
    postgresDir: string;
  }
}

/** Names the directory to the test files; returns how to stop what stands in it. A run without a database pays nothing. */
export async function offerPostgres(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'weir-run-'));
  // As root, Postgres runs as another user, who has to walk in.
  await chmod(dataDir, 0o711);
  project.provide('postgresDir', dataDir);
  return async () => {
    const made = await stat(join(dataDir, 'postgres')).catch(() => null);
    // The files' processes end without leaving; whoever joins last stops the server.
    if (made !== null) await (await joinRunPostgres(dataDir)).leave();
    await rm(dataDir, { recursive: true, force: true });
  };
}

/** Starts or joins the run's server. */
export function joinRunPostgres(dataDir: string): Promise<EmbeddedPostgres> {
  return joinEmbeddedPostgres({ dataDir, maxConnections: CONNECTIONS_MAX, log: () => {} });
}
