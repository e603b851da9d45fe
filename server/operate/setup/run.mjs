/** Runs one program to its end. A signal to the setup ends the program and all its children. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const patienceMs = 10_000;
const outputCharsMax = 200_000;

/** An error message for people. The setup prints it and exits with `exitCode`. */
export class Refusal extends Error {
  constructor(sentence, exitCode = 1) {
    super(sentence);
    this.exitCode = exitCode;
  }
}

/**
 * Resolves to `{ code, output }`. `output` (both streams, the last 200,000 characters) is collected only when `quiet`; otherwise the
 * program inherits the output streams. A program that cannot be started has code 127 and the reason as output.
 * TERM, INT and HUP are sent to the program's process group, which is killed after 10 s; then a Refusal with 128 + signal is thrown.
 */
export async function run(command, args, { cwd, env = process.env, quiet = false } = {}) {
  let child;
  let stoppedBy = null;
  let killer;
  const stop = (signal) => {
    stoppedBy = signal;
    signalGroup(child, signal);
    killer ??= setTimeout(() => signalGroup(child, 'SIGKILL'), patienceMs);
  };
  // Handlers are set before the program starts: a signal in between would end the setup and leave the program running.
  for (const signal of signals) process.on(signal, stop);
  // A separate process group: npm sends Ctrl-C a second time, and grandchildren (compilers, test workers) must end as well.
  child = spawn(command, args, { cwd, env, detached: true, stdio: quiet ? ['ignore', 'pipe', 'pipe'] : 'inherit' });
  let output = '';
  const gather = (chunk) => {
    output = (output + chunk).slice(-outputCharsMax);
  };
  child.stdout?.setEncoding('utf8').on('data', gather);
  child.stderr?.setEncoding('utf8').on('data', gather);
  const code = await new Promise((resolve) => {
    child.once('error', (error) => {
      output += `${command}: ${error.message}\n`;
      resolve(127);
    });
    child.once('close', (status) => resolve(status ?? 1));
  });
  clearTimeout(killer);
  for (const signal of signals) process.off(signal, stop);
  if (stoppedBy !== null) {
    // Remaining processes ignore the signal, as background jobs of a shell ignore INT.
    signalGroup(child, 'SIGKILL');
    throw new Refusal('', 128 + constants.signals[stoppedBy]);
  }
  return { code, output };
}

/** Runs `main`, prints a Refusal as one sentence, and sets the exit code. */
export async function leaveCleanly(main) {
  try {
    process.exitCode = (await main()) ?? 0;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.message !== '') console.error(error.message);
    process.exitCode = error.exitCode;
  }
}

function signalGroup(child, signal) {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    // ESRCH: the group has just ended. EPERM: sudo runs it as root; apt then ends by itself, and the setup waits for it.
    if (error.code !== 'ESRCH' && error.code !== 'EPERM') throw error;
  }
}
