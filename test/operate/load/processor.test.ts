import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { readProcessor, timeBetween } from '../../../server/operate/load/processor.ts';

describe('processor time between two readings', () => {
  test('a process that ended in between is left out', async () => {
    const child = spawn(process.execPath, ['-e', 'console.log("up"); setInterval(() => {}, 1000)']);
    await once(child.stdout, 'data');
    const before = readProcessor([], [child.pid!]);
    expect(before.size).toBe(1);
    child.kill('SIGKILL');
    await once(child, 'close');
    const after = readProcessor([], [child.pid!]);
    expect(timeBetween(before, after).postgres).toBe(0);
  });

  test('the event loop of a process that works is counted', () => {
    const before = readProcessor([process.pid], []);
    for (const untilMs = process.cpuUsage().user + 20_000; process.cpuUsage().user < untilMs; ) Math.random();
    const { eventLoop, other, postgres } = timeBetween(before, readProcessor([process.pid], []));
    expect(eventLoop + other).toBeGreaterThan(0);
    expect(postgres).toBe(0);
  });
});
