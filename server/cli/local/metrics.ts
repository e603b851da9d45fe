import type { Command } from 'commander';
import { type CommandIo, printJson, printText } from '../../base/command/io.ts';
import { dashboard } from '../../base/telemetry/dashboard.ts';
import { prometheusRules, type Rule, ruleTable } from '../../manage/conditions/rules.ts';
import { parseAddress } from '../command/arguments.ts';

/** `weir metrics dashboard|alerts`: files for Grafana and Prometheus. Needs neither settings nor a database. */
export function define(command: Command, io: CommandIo): void {
  command
    .command('dashboard')
    .description('print a dashboard for Grafana, to import as JSON')
    .option('--json', 'print it on one line')
    .action(({ json }: { json?: boolean }) => {
      if (json) printJson(io, dashboard());
      else printText(io, `${JSON.stringify(dashboard(), null, 2)}\n`);
    });
  command
    .command('alerts')
    .description('print alert rules for Prometheus; weir doctor --alert NAME explains one')
    .option('--public-url <url>', 'PUBLIC_URL of Weir: each rule links to what to do, as runbook_url', parseAddress)
    .option('--json', 'print the alerts as one JSON document')
    .action(({ json, publicUrl }: { json?: boolean; publicUrl?: URL }) => {
      if (json)
        printJson(io, { items: Object.entries<Rule>(ruleTable).map(([name, rule]) => describeRule(name, rule)) });
      else printText(io, prometheusRules(publicUrl));
    });
}

/** A rule as `--json` prints it. */
export function describeRule(name: string, { expr, forMinutes, severity, summary, runbook }: Rule) {
  return { name, severity, summary, expr, for_seconds: forMinutes * 60, runbook };
}
