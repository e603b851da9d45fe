/** Asks on a terminal before an operation that stops traffic or cannot be undone (model/confirmations.ts). */
import { createInterface } from 'node:readline';
import { CommandError, type CommandIo, printMessage } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import { confirmationOf } from '../../model/confirmations.ts';
import type { Call } from './call.ts';

/**
 * The calls of a command, which ask once. Without a terminal nothing is asked: a script has no person to answer.
 * @param about the target as the person named it; '' without one
 * @param yes the option --yes
 */
export function confirmedCall(io: CommandIo, call: Call, about: string, yes: boolean): Call {
  let isConfirmed = yes || io.stdin.isTTY !== true || io.stdout.isTTY !== true;
  return async (operation, given) => {
    const asked = isConfirmed ? null : confirmationOf(operation, given?.input);
    if (asked !== null) {
      const question = `${about === '' ? '' : `${about}: `}${asked.consequence} Continue? [y/N] `;
      if (!(await isAnsweredYes(io, visibleLine(question))))
        throw new CommandError('nothing was changed; answer y, or give --yes');
      isConfirmed = true;
    }
    return call(operation, given);
  };
}

/** Asks on standard error. An input that ends without an answer is a no. */
export async function isAnsweredYes(io: CommandIo, question: string): Promise<boolean> {
  printMessage(io, question);
  const lines = createInterface({ input: io.stdin });
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim());
    return false;
  } finally {
    lines.close();
  }
}
