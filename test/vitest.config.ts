import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Real servers, databases and threads: a two-core machine runs two files at a time without false failures.
    maxWorkers: 2,
    // CI shares its machine with others: two more tries there, not in the same breath, which the output marks (retry x1).
    retry: process.env.CI === 'true' ? { count: 2, delay: 2_000 } : 0,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    globalSetup: ['test/helpers/global-setup.ts'],
    coverage: {
      provider: 'v8',
      include: ['server/**/*.ts', 'workers/**/*.ts'],
      reporter: ['text-summary', 'lcovonly'],
    },
  },
});
