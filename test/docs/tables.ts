/** Markdown tables of the commands, settings, routes, errors, rejections, metrics and log events, generated from the code. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { settingGroups } from '../../server/base/settings/table.ts';
import type { Setting } from '../../server/base/settings/values.ts';
import { logEvents } from '../../server/base/telemetry/log-events.ts';
import { cellMetrics, metricTable } from '../../server/base/telemetry/metric-table.ts';
import { oauthRoutes, operationRoutes, plainRoutes } from '../../server/manage/api/routes.ts';
import { type Rule, ruleTable } from '../../server/manage/conditions/rules.ts';
import { conditionKinds, conditionOf, reportedKinds, reportOf } from '../../server/model/conditions.ts';
import { type ProblemRow, problems } from '../../server/model/errors.ts';
import { handshakes } from '../../server/model/signatures/definition.ts';
import { rejectionReasons } from '../../server/model/signatures/diagnosis/reasons.ts';
import { isAsymmetric } from '../../server/model/signatures/keys.ts';
import { presets } from '../../server/model/signatures/presets.ts';
import { root } from './documents.ts';

/** The default of a setting as text for people. */
function shownDefault({ fallback, fallbackShown }: Setting): string {
  return fallbackShown ?? (fallback === undefined ? 'unset' : fallback === '' ? 'empty' : fallback);
}

/** The meaning of a setting, with notes: another name for the path of a file with it, and that HUP does not apply a change to it. */
function shownMeaning(name: string, { meaning, secret, fixed }: Setting): string {
  return `${meaning}${secret ? `; or ${name}_FILE, a file with it` : ''}${fixed ? '; a change needs a restart' : ''}`;
}

/** One row for each command without subcommands, in the order of `weir --help`; hidden ones are left out. */
function commandsTable(program: Command): string {
  const rowsOf = (command: Command, path: string): string[][] =>
    command
      .createHelp()
      .visibleCommands(command)
      .filter((child) => child.name() !== 'help')
      .flatMap((child) =>
        child.commands.length > 0
          ? rowsOf(child, `${path}${child.name()} `)
          : [[`\`${path}${usage(child)}\``, sentence(child.description()).replace(/\.$/, '')]],
      );
  return markdownTable(['command', 'what it does'], rowsOf(program, ''));
}

/** A command with its arguments and the options that it requires. */
function usage(command: Command): string {
  const given = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  return [command.name(), ...given, ...command.options.filter((one) => one.mandatory).map((one) => one.flags)].join(
    ' ',
  );
}

/** The text with a capital at its beginning and a full stop at its end. */
function sentence(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`;
}

function conditionsTable(): string {
  return markdownTable(
    ['condition', 'severity', 'holds while', 'an alert begins when'],
    conditionKinds.map((kind) => {
      const { severity, meaning } = conditionOf(kind);
      const reported = reportedKinds.find((one) => one === kind);
      return [`\`${kind}\``, severity, meaning, reported === undefined ? '' : reportOf(reported).meaning];
    }),
  );
}

function settingsTables(): string {
  return settingGroups
    .map(({ title, settings }) => {
      const rows = Object.entries<Setting>(settings).map(([name, row]) => [
        `\`${name}\``,
        shownDefault(row),
        row.allowed,
        shownMeaning(name, row),
      ]);
      return `**${title}**\n\n${markdownTable(['setting', 'default', 'allowed', 'meaning'], rows)}`;
    })
    .join('\n\n');
}

function routesTable(): string {
  return markdownTable(
    ['method', 'path', 'who', 'response'],
    [...plainRoutes, ...oauthRoutes, ...operationRoutes].map(([method, path, , access, meaning]) => [
      method,
      `\`${path.replace(/:(\w+)/g, '{$1}')}\``,
      access,
      meaning,
    ]),
  );
}

function errorsTable(): string {
  const rows = Object.entries<ProblemRow>(problems).sort(([, a], [, b]) => a.status - b.status);
  return markdownTable(
    ['status', 'code', 'detail'],
    rows.map(([code, { status, detail }]) => [String(status), `\`${code}\``, detail]),
  );
}

function metricsTable(): string {
  return markdownTable(
    ['metric', 'type', 'meaning'],
    Object.entries(metricTable).map(([name, [type, meaning]]) => [
      `\`${name}\``,
      type,
      cellMetrics.has(name) ? `${meaning}; with cells by \`cell\`` : meaning,
    ]),
  );
}

function alertsTable(): string {
  return markdownTable(
    ['alert', 'severity', 'after', 'fires when', 'what to do'],
    Object.entries<Rule>(ruleTable).map(([name, { severity, forMinutes, summary, runbook }]) => [
      `\`${name}\``,
      severity,
      forMinutes === 0 ? 'at once' : `${forMinutes} min`,
      summary,
      runbook,
    ]),
  );
}

function logTable(): string {
  return markdownTable(
    ['event', 'level', 'meaning'],
    Object.entries(logEvents).map(([name, [level, meaning]]) => [`\`${name}\``, level, meaning]),
  );
}

function rejectionsTable(): string {
  return markdownTable(
    ['reason', 'meaning and fix'],
    Object.entries(rejectionReasons).map(([reason, hint]) => [`\`${reason}\``, hint]),
  );
}

function schemesTable(): string {
  return markdownTable(
    ['scheme', 'sender', 'algorithm', 'header', 'needs', 'the sender demands', 'it repeats requests'],
    presets.map(
      ({ name, title, docs, definition: { algorithm, header }, publicKeyDefinition, handshake, demands, retries }) => [
        `\`${name}\``,
        `[${title}](${docs})`,
        publicKeyDefinition === undefined ? algorithm : `${algorithm} or ${publicKeyDefinition.algorithm}`,
        header === undefined ? '' : `\`${header}\``,
        isAsymmetric(algorithm) ? 'public key' : publicKeyDefinition === undefined ? 'secret' : 'secret or public key',
        [
          ...(handshake === undefined ? [] : [`a response to [${handshakes[handshake]}](${docs})`]),
          ...(demands === undefined ? [] : [`[${demands.what}](${demands.source})`]),
        ].join('; ') || 'a 2xx status',
        retries === undefined ? '' : `[${retries.repeats ?? 'no'}](${retries.source})`,
      ],
    ),
  );
}

interface LockedPackage {
  version: string;
  license: string;
  dev?: boolean;
}

/** The packages of what runs, by licence. */
function noticesTable(): string {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const rows = Object.entries<LockedPackage>(packages)
    .filter(([path, { dev }]) => path !== '' && !dev)
    .map(([path, { version, license }]) => [path.replace(/^.*node_modules\//, ''), version, license]);
  const unique = new Map(rows.map((row) => [row.join(' '), row]));
  return markdownTable(
    ['package', 'version', 'licence'],
    [...unique.values()].sort(([one], [two]) => (one! < two! ? -1 : 1)),
  );
}

/** The generated tables of the documents, by marker name. */
export const tables: Readonly<Record<string, (program: Command) => string>> = {
  conditions: conditionsTable,
  commands: commandsTable,
  settings: settingsTables,
  routes: routesTable,
  errors: errorsTable,
  schemes: schemesTable,
  rejections: rejectionsTable,
  metrics: metricsTable,
  alerts: alertsTable,
  'log-events': logTable,
  notices: noticesTable,
};

/** A Markdown table; a `|` inside a cell is escaped. */
function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
  return line(header) + line(header.map(() => '---')) + rows.map(line).join('');
}

const head = `# Every setting of Weir at its default: copy this file to .env and uncomment what you change.
# The environment wins over .env, and an empty value counts as unset. A .env with secrets in it: chmod 600 .env
# Written by \`npm run docs\` from server/base/settings/rows; don't edit it here.
`;

/** `.env.example`: every setting with its meaning, commented out at its default. */
export function envExample(): string {
  const groups = settingGroups.map(
    ({ title, settings }) => `\n# ${title}\n${Object.entries<Setting>(settings).map(envEntry).join('')}`,
  );
  return head + groups.join('');
}

function envEntry([name, row]: [string, Setting]): string {
  const computed =
    row.fallback === undefined && row.fallbackShown !== undefined ? `\n# Default: ${shownDefault(row)}.` : '';
  return `\n# ${sentence(shownMeaning(name, row))}\n# Allowed: ${row.allowed}.${computed}\n#${name}=${row.fallback ?? ''}\n`;
}
