/** `.env.example`: every setting with its meaning, commented out at its default. */
import { type SettingRow, settingRows, shownDefault, shownMeaning } from './tables.ts';

const head = `# Every setting of Weir at its default: copy this file to .env and uncomment what you change.
# The environment wins over .env, and an empty value counts as unset. A .env with secrets in it: chmod 600 .env
# Written by \`npm run docs\` from server/setting-table.ts; don't edit it here.
`;

export function envExample(): string {
  return head + settingRows().map(entry).join('');
}

function entry(row: SettingRow): string {
  const computed = row.fallback === null && row.fallbackShown !== undefined ? `\n# Default: ${shownDefault(row)}.` : '';
  return `\n# ${sentence(shownMeaning(row))}\n# Allowed: ${row.allowed}.${computed}\n#${row.name}=${row.fallback ?? ''}\n`;
}

function sentence(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
