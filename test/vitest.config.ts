import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Real servers, databases and threads: two files at a time is what a two-core machine carries without false alarms.
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
