import { Command } from 'commander';
import type { Check } from '../doctor/check.ts';
import { examine } from '../doctor/examine.ts';
import { CommandError, type CommandIo, printJson, printMessage, printText } from './io.ts';

const marks = { ok: '✓', advice: '!', problem: '✗' } as const;

/** `weir doctor`: reports problems and their fixes. Exits with code 1 when there is a problem; advice alone is not a failure. */
export function doctorCommand(io: CommandIo): Command {
  return new Command('doctor')
    .description('check settings, database, store, keys, origins and kernel, and print how to fix problems')
    .option('--json', 'print one JSON document')
    .action(async ({ json }: { json?: boolean }) => {
      const checks = await examine(io.environment, io.directory, (line) => printMessage(io, `weir: ${line}\n`));
      if (json) printJson(io, { checks });
      else printText(io, describe(checks));
      if (checks.some((check) => check.state === 'problem')) throw new CommandError('');
    });
}

function describe(checks: readonly Check[]): string {
  const width = Math.max(...checks.map((check) => check.name.length));
  const indent = ' '.repeat(width + 4);
  const lines = checks.map(
    ({ name, state, finding, fix }) =>
      `${marks[state]} ${name.padEnd(width)}  ${finding}\n${fix === null ? '' : `${indent}→ ${fix.replaceAll('\n', `\n${indent}  `)}\n`}`,
  );
  return `${lines.join('')}\n${verdict(checks)}\n`;
}

function verdict(checks: readonly Check[]): string {
  const count = (state: Check['state']) => checks.filter((check) => check.state === state).length;
  const problems = count('problem');
  const hints = count('advice');
  if (problems === 0 && hints === 0) return 'All is well.';
  const summary = problems === 0 ? 'No problem' : problems === 1 ? '1 problem' : `${problems} problems`;
  return hints === 0 ? `${summary}.` : `${summary}, ${hints === 1 ? '1 piece' : `${hints} pieces`} of advice.`;
}
