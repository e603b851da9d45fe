import { expect, test } from 'vitest';
import { addPerfScript, addSample, drawFlameGraph, newFrame } from '../../bench/profile.ts';

test('samples of perf are counted by thread and caller, the outermost frame first', () => {
  const root = newFrame('all');
  addPerfScript(
    root,
    'node \n\t 7f01 recv\n\t 55aa JS:*onData app.js:1\n\nnode \n\t 55aa JS:*onData app.js:1\n\nwal\n\t ff fsync\n\n',
  );
  expect(root.samples).toBe(3);
  expect([...root.callees.keys()]).toEqual(['node', 'wal']);
  const onData = root.callees.get('node')!.callees.get('JS:*onData app.js:1')!;
  expect(onData.samples).toBe(2);
  expect(onData.callees.get('recv')!.samples).toBe(1);
});

test('the width of a frame is its share of the samples, and its name is escaped', () => {
  const root = newFrame('all');
  for (let i = 0; i < 3; i++) addSample(root, ['Map<int>']);
  addSample(root, ['send']);
  const svg = drawFlameGraph(root, 'title');
  expect(svg).toContain('<title>Map&lt;int&gt;: 75.00 % (3 samples)</title><rect x="0.0" y="-17" width="1200.0"');
  expect(svg).toContain('<title>send: 25.00 % (1 samples)</title><rect x="1200.0" y="-17" width="400.0"');
});

test('a frame too narrow to see is left out', () => {
  const root = newFrame('all');
  for (let i = 0; i < 9_999; i++) addSample(root, ['wide']);
  addSample(root, ['narrow']);
  expect(drawFlameGraph(root, '')).not.toContain('narrow');
});
