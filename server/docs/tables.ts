/** Markdown tables of the settings, routes, errors, rejections, metrics and log events, generated from the code. */
import { operationRoutes, plainRoutes } from '../api/routes.ts';
import { type ProblemRow, problems } from '../errors.ts';
import { settingTable } from '../settings/table.ts';
import { rejectionReasons } from '../signatures/diagnosis/reasons.ts';
import { isAsymmetric } from '../signatures/keys.ts';
import { presets } from '../signatures/presets.ts';
import { type Alert, alertTable } from '../telemetry/alerts.ts';
import { logEvents } from '../telemetry/log.ts';
import { metricTable } from '../telemetry/metric-table.ts';

/** One row of `settingTable`, as the documentation needs it. */
export interface SettingRow {
  name: string;
  fallback: string | null;
  fallbackShown?: string;
  allowed: string;
  meaning: string;
  secret?: true;
  fixed?: true;
}

export function settingRows(): SettingRow[] {
  return Object.entries(settingTable).map(([name, row]) => ({ name, ...row }));
}

/** The default of a setting as text for people. */
export function shownDefault({ fallback, fallbackShown }: SettingRow): string {
  return fallbackShown ?? (fallback === null ? 'unset' : fallback === '' ? 'empty' : fallback);
}

/** The meaning of a setting, with a note when HUP does not apply a change to it. */
export function shownMeaning({ meaning, fixed }: SettingRow): string {
  return fixed ? `${meaning}; a change needs a restart` : meaning;
}

function settingsTable(): string {
  return markdownTable(
    ['setting', 'default', 'allowed', 'meaning'],
    settingRows().map((row) => [`\`${row.name}\``, shownDefault(row), row.allowed, shownMeaning(row)]),
  );
}

function routesTable(): string {
  return markdownTable(
    ['method', 'path', 'who', 'response'],
    [...plainRoutes, ...operationRoutes].map(([method, path, , access, meaning]) => [
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
    Object.entries(metricTable).map(([name, [type, meaning]]) => [`\`${name}\``, type, meaning]),
  );
}

function alertsTable(): string {
  return markdownTable(
    ['alert', 'severity', 'after', 'fires when'],
    Object.entries<Alert>(alertTable).map(([name, { severity, forMinutes, summary }]) => [
      `\`${name}\``,
      severity,
      forMinutes === 0 ? 'at once' : `${forMinutes} min`,
      summary,
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
    ['scheme', 'sender', 'algorithm', 'header', 'needs', 'handshake'],
    presets.map(({ name, title, docs, definition: { algorithm, header }, handshake }) => [
      `\`${name}\``,
      `[${title}](${docs})`,
      algorithm,
      header === undefined ? '' : `\`${header}\``,
      isAsymmetric(algorithm) ? 'public key' : 'secret',
      handshake ?? '',
    ]),
  );
}

/** The generated regions of the README, by marker name. */
export const regions: Readonly<Record<string, () => string>> = {
  settings: settingsTable,
  routes: routesTable,
  errors: errorsTable,
  schemes: schemesTable,
  rejections: rejectionsTable,
  metrics: metricsTable,
  alerts: alertsTable,
  'log-events': logTable,
};

/** Puts `content` between the markers `<!-- NAME:begin -->` and `<!-- NAME:end -->` of a page. Throws unless the page has each marker exactly once, in order. */
export function replaceRegion(page: string, name: string, content: string): string {
  const begin = `<!-- ${name}:begin -->`;
  const end = `<!-- ${name}:end -->`;
  const [before, inside, ...more] = page.split(begin);
  const [, after, ...moreEnds] = inside?.split(end) ?? [];
  if (before === undefined || after === undefined || more.length > 0 || moreEnds.length > 0)
    throw new Error(`the page must hold ${begin} and then ${end}, once each`);
  return `${before}${begin}\n${content.trim()}\n${end}${after}`;
}

/** A Markdown table; a `|` inside a cell is escaped. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
  return line(header) + line(header.map(() => '---')) + rows.map(line).join('');
}
