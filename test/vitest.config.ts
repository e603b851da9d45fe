import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Starts the chains of test/faults first: each takes minutes, most of them in waits. The nemesis is last: it loads every core. */
class FaultsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification) =>
      moduleId.includes('/nemesis.test.') ? 2 : moduleId.includes('/test/faults/') ? 0 : 1;
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}

// As in the processes of Weir (server/operate/primary/forks.ts): each connection to a server that does not answer takes a thread.
process.env.UV_THREADPOOL_SIZE ??= '16';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Files wait for servers and databases most of the time: four at a time keep two cores busy. Each more imports the server once more.
    maxWorkers: 4,
    // One process runs many files one after another: to import the server for each of 200 takes 1.1 s of CPU time a file.
    isolate: false,
    sequence: { sequencer: FaultsFirst },
    env: {
      // Read when uWebSockets.js is loaded: room for the largest HEADER_BYTES_MAX (see processEnvironment in server/operate/primary/forks.ts).
      UWS_HTTP_MAX_HEADERS_SIZE: '131072',
      // Processes and threads that the tests start write their coverage there (test/tools/coverage.mjs).
      ...(process.env.COVERAGE_OF_DIST && { NODE_V8_COVERAGE: process.env.COVERAGE_OF_DIST }),
    },
    // Only what hangs takes longer, on a busy machine too. What a test waits for has its own limit (helpers/wait.ts).
    testTimeout: 300_000,
    hookTimeout: 300_000,
    globalSetup: ['test/helpers/global-setup.ts'],
    coverage: {
      provider: 'v8',
      include: ['server/**/*.ts', 'workers/**/*.ts'],
      reporter: ['text-summary', 'lcovonly'],
      reportOnFailure: true,
    },
  },
});
