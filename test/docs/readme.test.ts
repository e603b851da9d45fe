/** The five minutes of the README: each line after a `$` is run as it is printed, with the values that the earlier lines printed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Installation, installWeir } from '../helpers/installation.ts';
import { until } from '../helpers/wait.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');
const section = readme.slice(readme.indexOf('\n## Five minutes\n'), readme.indexOf('\n## Guarantees\n'));
const lines = [...section.matchAll(/^\$ (.+)$/gm)].map(([, line]) => line!);
const printed = {
  origin: 'http://127.0.0.1:8080',
  id: section.match(/\/in\/([0-9a-f-]{36})/)![1]!,
  secret: section.match(/Secret {2}([0-9a-f]{64})/)![1]!,
};

let installation: Installation;
let weir: Weir;
beforeAll(async () => {
  installation = await installWeir();
  weir = await startWeir({}, { entry: installation.entry });
});
afterAll(async () => {
  await weir?.stop();
  await installation.remove();
});

/** A shell in the directory of the installation. `PORT` and `DATA_DIR` stand for those of its `.env`. */
function shell(line: string, exported: Record<string, string>) {
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, PORT: String(weir.port), DATA_DIR: weir.dataDir, ...exported };
  const child = spawn('bash', ['-c', line], { cwd: installation.directory, env, detached: true });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (out += text));
  return { pid: child.pid!, out: () => out, ended: once(child, 'close').then(([code]) => code as number) };
}

test('works as it is printed', async () => {
  const exported: Record<string, string> = {};
  const actual = { ...printed, origin: `http://127.0.0.1:${weir.port}` };
  const own = (line: string) =>
    line
      .replaceAll(printed.origin, actual.origin)
      .replaceAll(printed.id, actual.id)
      .replaceAll(printed.secret, actual.secret);
  const outputs: string[] = [];
  for (const line of lines.slice(0, -1)) {
    const [, name, value] = line.match(/^export (\w+)=(\S+)$/) ?? [];
    if (name !== undefined) {
      exported[name] = own(value!);
      continue;
    }
    const { ended, out } = shell(own(line), exported);
    expect([line, await ended, out()]).toEqual([line, 0, expect.any(String)]);
    outputs.push(out());
    actual.id = out().match(/^ {2}URL {5}\S+\/in\/(\S+)$/m)?.[1] ?? actual.id;
    actual.secret = out().match(/^ {2}Secret {2}(\w+) /m)?.[1] ?? actual.secret;
  }
  expect(outputs).toEqual([
    expect.stringContaining('A sender on another machine cannot reach 127.0.0.1: '),
    expect.stringMatching(/^ {2}202 {2}329$/m),
    expect.stringMatching(/^ {2}Credential {2}in worker\.credential$/m),
    expect.stringMatching(/^ {2}202 {2}10$/m),
  ]);
  const consume = shell(own(lines.at(-1)!), exported);
  const handled = () => consume.out().match(/^[a-z_.]+ of \d+ bytes$/gm) ?? [];
  await until(() => handled().length === 10);
  process.kill(-consume.pid, 'SIGINT');
  await consume.ended;
  expect(consume.out()).not.toMatch(/error/i);
  const [{ events } = { events: 0 }] = await weir.sql<{ events: number }>('select count(*)::int as events from events');
  expect(events).toBe(329 + 10);
});
