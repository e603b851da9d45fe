import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { settingTable } from '../../../server/base/settings/table.ts';
import { logEvents } from '../../../server/base/telemetry/log-events.ts';
import { metricTable } from '../../../server/base/telemetry/metric-table.ts';
import { commands } from '../../../server/cli/commands.ts';
import { prometheusRules, type Rule, ruleTable } from '../../../server/manage/conditions/rules.ts';
import { problems } from '../../../server/model/errors.ts';
import { runCommands } from '../../helpers/command.ts';

/** Runs a command with settings that would stop every other one: these need none. */
const run = (...args: string[]) => runCommands(commands, '/nowhere', { PORT: 'none' }, args);

describe('weir metrics', () => {
  test('dashboard prints JSON for Grafana', async () => {
    const { code, out, err } = await run('metrics', 'dashboard');
    expect([code, err]).toEqual([0, '']);
    expect(JSON.parse(out)).toMatchObject({ title: 'Weir', schemaVersion: 39 });
    expect(JSON.parse((await run('metrics', 'dashboard', '--json')).out)).toEqual(JSON.parse(out));
  });

  test('alerts links each rule to its row of the guide', async () => {
    const { out } = await run('metrics', 'alerts', '--public-url', 'https://weir.example.org');
    const { groups } = parse(out) as { groups: { rules: { alert: string; annotations: { runbook_url: string } }[] }[] };
    const built = await readFile(
      fileURLToPath(new URL('../../../dist/views/docs/guides.json', import.meta.url)),
      'utf8',
    );
    const { html } = (JSON.parse(built) as { name: string; html: string }[]).find(({ name }) => name === 'reference')!;
    for (const { alert, annotations } of groups[0]!.rules) {
      expect(annotations.runbook_url).toBe(`https://weir.example.org/docs/reference#${alert}`);
      expect(html).toContain(`<tr id="${alert}">`);
    }
    expect((await run('metrics', 'alerts', '--public-url', 'weir.example.org')).code).toBe(2);
  });

  test('alerts prints the rules, and with --json their table', async () => {
    const { code, out, err } = await run('metrics', 'alerts');
    expect([code, err, out]).toEqual([0, '', prometheusRules()]);
    const { items } = JSON.parse((await run('metrics', 'alerts', '--json')).out);
    const { groups } = parse(out) as { groups: { rules: { alert: string; expr: string }[] }[] };
    expect(items.map(({ name, expr }: { name: string; expr: string }) => [name, expr])).toEqual(
      groups[0]!.rules.map(({ alert, expr }) => [alert, expr]),
    );
  });
});

describe('weir doctor --alert', () => {
  test.each(Object.entries<Rule>(ruleTable))('explains %s', async (name, { expr, severity, summary, runbook }) => {
    const { code, out, err } = await run('doctor', '--alert', name);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain(`${name} (${severity})\n${summary}\n\nWhat to do:\n  ${runbook}\n`);
    expect(out).toContain(`:\n  ${expr}\n`);
    // The meaning of each metric that the rule reads.
    expect(out.split('\nMetrics:\n')[1]).toMatch(/^( {2}\w+: .+\n)+$/);
    expect(JSON.parse((await run('doctor', '--alert', name, '--json')).out)).toMatchObject({ name, severity, runbook });
  });

  test('names the alerts for an unknown name', async () => {
    const { code, out, err } = await run('doctor', '--alert', 'NoSuchAlert');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('No alert has the name "NoSuchAlert"');
    expect(err).toContain('WeirDatabaseDown');
  });
});

describe('the text of an alert', () => {
  const texts = Object.entries<Rule>(ruleTable).map(
    ([name, { summary, runbook }]) => [name, `${summary} ${runbook}`] as const,
  );
  const known = new Set(
    [metricTable, settingTable, logEvents, problems, ruleTable].flatMap((table) => Object.keys(table)),
  );
  /** Settings of Postgres. */
  for (const name of ['log_checkpoints', 'default_transaction_read_only', 'pg_stat_activity']) known.add(name);

  test.each(texts)('of %s names only things that exist', (_, text) => {
    const names = text.match(/\b[a-z]+(?:_[a-z]+)+\b|\b[A-Z]{2,}(?:_[A-Z]+)+\b|\bWeir[A-Z]\w+/g) ?? [];
    expect(names.filter((name) => !known.has(name))).toEqual([]);
  });

  test('names only commands that exist', async () => {
    const commands = new Set(
      texts.flatMap(([, text]) => text.match(/\bweir (?:[a-z]+ )?[a-z]+(?= ID|[ .,)]|$)/g) ?? []),
    );
    expect(commands.size).toBeGreaterThan(5);
    for (const command of commands) {
      const [, ...words] = command.split(' ');
      const [usage] = (await run(...words, '--help')).out.split('\n');
      // The second word is not always a part of the command. For an unknown one, the usage is that of the group.
      const found = [words.join(' '), words[0]].some((name) => usage!.startsWith(`Usage: weir ${name} `));
      expect([command, found && !usage!.includes('[command]')]).toEqual([command, true]);
    }
  });
});
