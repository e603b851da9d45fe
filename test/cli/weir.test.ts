/** The program as run by a shell. */
import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { expect, onTestFinished, test } from 'vitest';
import { buildProgram, entry } from '../../server/cli/command/program.ts';
import { commands } from '../../server/cli/commands.ts';
import { storeEvents } from '../helpers/agents.ts';
import { startTestApp } from '../helpers/app.ts';
import { runCommands } from '../helpers/command.ts';
import { processesOf } from '../helpers/processes.ts';
import { someKey } from '../helpers/settings.ts';
import { ofTest } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';
import { makeDataDir, spawnWeir } from '../helpers/weir.ts';

test('the help of every command fits a terminal of 80 columns', async () => {
  const io = { environment: {}, directory: '/', stdin: process.stdin, stdout: process.stdout, stderr: process.stderr };
  const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];
  const found = all(await buildProgram(commands, io));
  expect(found.length).toBeGreaterThan(100);
  const wide = found.flatMap((command) => {
    const help = command.createHelp();
    help.helpWidth = 80;
    Object.assign(help, command.configureHelp());
    return help
      .formatHelp(command, help)
      .split('\n')
      .filter((line) => line.length > 80);
  });
  expect(wide).toEqual([]);
});

test('an error of the system, such as a full disk, is one sentence', async () => {
  const fails = entry('fails', '', async () => ({
    define: (command: Command) => void command.action(async () => void (await readFile('/nowhere'))),
  }));
  const err = "weir: ENOENT: no such file or directory, open '/nowhere'\n";
  expect(await runCommands([fails], '/', {}, ['fails'])).toEqual({ code: 1, out: '', err });
});

const program = fileURLToPath(new URL('../../dist/server/cli/weir.js', import.meta.url));

test('a command whose reader exits, like head, completes its work and succeeds', async () => {
  const dataDir = await makeDataDir();
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const weir = spawnWeir({ DATA_DIR: dataDir }, { command: ['migrate'] });
  weir.child.stdout!.destroy();
  weir.child.stderr!.destroy();
  expect(await weir.ended).toBe(0);
  // The database that it started.
  await until(async () => (await processesOf(dataDir)).length === 0);
});

/** Runs a line of bash, in which $WEIR runs the program; resolves with its exit code and what it printed on standard error. */
function bash(line: string, environment: Record<string, string>): Promise<{ code: number; err: string }> {
  const env = { ...process.env, WEIR: `${process.execPath} ${program}`, ...environment };
  return new Promise((resolve) => {
    execFile('bash', ['-o', 'pipefail', '-c', line], { env }, (error, _out, err) =>
      resolve({ code: Number(error?.code ?? 0), err }),
    );
  });
}

test('an output that takes no more ends in one sentence, and in silence when its reader has left', async () => {
  const app = await ofTest(startTestApp());
  const webhook = await app.addWebhook({ secret: null });
  await storeEvents(app.database, webhook.id, 3_000);
  const environment = { DATABASE_URL: app.conninfo, SECRETS_KEY: someKey };
  const full = { code: 1, err: 'weir: standard output cannot be written: ENOSPC.\n' };
  expect(await bash('$WEIR event export > /dev/full', environment)).toEqual(full);
  expect(await bash('$WEIR scheme list > /dev/full', environment)).toEqual(full);
  const left = await bash('$WEIR event export | head -c 10', environment);
  expect(left).toEqual({ code: 141, err: '' });
  expect(await bash('$WEIR scheme list | head -c 10', environment)).toEqual({
    code: 0,
    err: '',
  });
});
