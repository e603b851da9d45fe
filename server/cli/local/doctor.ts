import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printLine, printText } from '../../base/command/io.ts';
import { metricTable } from '../../base/telemetry/metric-table.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';
import { type Rule, ruleTable } from '../../manage/conditions/rules.ts';
import type { Check } from '../../model/check.ts';
import { counted } from '../../model/words.ts';
import { examine } from '../../operate/doctor/examine.ts';
import { describeRule } from './metrics.ts';

const marks = { ok: '✓', advice: '!', problem: '✗' } as const;

/**
 * `weir doctor`: reports problems and their fixes. Exits with code 1 when there is a problem; advice alone is not a failure.
 * `weir doctor --alert NAME` explains an alert of `weir metrics alerts` instead; it needs neither settings nor a database.
 */
export function define(command: Command, io: CommandIo): void {
  command
    .option('--alert <name>', 'explain this alert of weir metrics alerts instead')
    .option('--json', 'print one JSON document')
    .action(async ({ alert, json }: { alert?: string; json?: boolean }) => {
      if (alert !== undefined) return explain(io, alert, json);
      const checks = await examine(io.environment, io.directory, (line) => printLine(io, `weir: ${line}`));
      if (json) printJson(io, { checks });
      else printText(io, describe(checks));
      if (checks.some((check) => check.state === 'problem')) throw new CommandError('');
    });
}

function explain(io: CommandIo, name: string, json?: boolean): void {
  const alert = Object.entries<Rule>(ruleTable).find(([known]) => known === name)?.[1];
  if (alert === undefined)
    throw new CommandError(
      `No alert has the name ${JSON.stringify(name)}; there are ${Object.keys(ruleTable).join(', ')}`,
    );
  if (json) return printJson(io, describeRule(name, alert));
  const { expr, forMinutes, severity, summary, runbook } = alert;
  const metrics = Object.entries(metricTable).filter(([metric]) => new RegExp(`\\b${metric}(_bucket)?\\b`).test(expr));
  printText(io, `${name} (${severity})\n${summary}\n\nWhat to do:\n  ${runbook}\n\nIt fires when this has a result`);
  printText(io, `${forMinutes === 0 ? '' : ` for ${forMinutes} min`}:\n  ${expr}\n\nMetrics:\n`);
  for (const [metric, [, meaning]] of metrics) printText(io, `  ${metric}: ${meaning}\n`);
}

function describe(checks: readonly Check[]): string {
  const width = Math.max(...checks.map((check) => check.name.length));
  const indent = ' '.repeat(width + 4);
  const lines = checks.map(
    ({ name, state, finding, fix }) =>
      `${marks[state]} ${name.padEnd(width)}  ${visibleLine(finding)}\n${fix === null ? '' : `${indent}→ ${fix.replaceAll('\n', `\n${indent}  `)}\n`}`,
  );
  return `${lines.join('')}\n${verdict(checks)}\n`;
}

function verdict(checks: readonly Check[]): string {
  const count = (state: Check['state']) => checks.filter((check) => check.state === state).length;
  const problems = count('problem');
  const hints = count('advice');
  if (problems === 0 && hints === 0) return 'All is well.';
  const summary = problems === 0 ? 'No problem' : counted(problems, 'problem');
  return hints === 0 ? `${summary}.` : `${summary}, ${counted(hints, 'piece')} of advice.`;
}
