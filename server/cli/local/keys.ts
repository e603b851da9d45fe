import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printText, table } from '../../base/command/io.ts';
import { keyPath, lockDataDir } from '../../base/files/data-dir.ts';
import { readSettings } from '../../base/settings/read.ts';
import { AGENT_SESSION_SECONDS } from '../../manage/auth/agent.ts';
import { commandActor } from '../../store/audit/record.ts';
import { previousKeyPath, replaceStoredKey } from '../../store/secrets/keys.ts';
import { type KeyRotation, rotateKeys } from '../../store/secrets/rotate.ts';
import { type CommandSession, requireInstallation, withDatabase } from '../command/session.ts';

/** `weir keys new|rotate`. */
export function define(command: Command, io: CommandIo): void {
  command
    .command('new')
    .description('replace the generated key in DATA_DIR while Weir is stopped; the previous key is kept beside it')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) => makeNewKey(io, json === true));

  command
    .command('rotate')
    .description('re-encrypt every stored secret under SECRETS_KEY, so that SECRETS_KEY_PREVIOUS can be removed')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) => withDatabase(io, (session) => rotate(io, session, json === true)));
}

async function makeNewKey(io: CommandIo, json: boolean): Promise<void> {
  const settings = readSettings(io.environment, io.directory);
  await requireInstallation(settings);
  const { DATA_DIR: directory, SECRETS_KEY: given } = settings;
  if (given !== undefined)
    throw new CommandError(
      'SECRETS_KEY is set, so there is no generated key. Set SECRETS_KEY_PREVIOUS to its value and SECRETS_KEY to a new one (openssl rand -base64 32), restart Weir, and run: weir keys rotate',
    );
  const lock = await lockDataDir(directory);
  try {
    replaceStoredKey(directory);
  } finally {
    await lock.release();
  }
  if (json) printJson(io, { key_file: keyPath(directory), previous_key_file: previousKeyPath(directory) });
  else
    printText(
      io,
      `New key in ${keyPath(directory)}; the previous key is in ${previousKeyPath(directory)}.\nStart Weir, then run: weir keys rotate\n`,
    );
}

async function rotate(io: CommandIo, { database, settings, keys }: CommandSession, json: boolean): Promise<void> {
  const outcome = await rotateKeys(database, keys, commandActor());
  if (outcome.kind === 'not_started')
    throw new CommandError(
      'Weir runs without this SECRETS_KEY and could not decrypt the re-encrypted secrets. Restart it with SECRETS_KEY and SECRETS_KEY_PREVIOUS as they are set here, then run this command again.',
    );
  const { rotation } = outcome;
  const { replaced_seconds, ...shown } = rotation;
  const until =
    replaced_seconds === null
      ? null
      : new Date(Date.now() + (AGENT_SESSION_SECONDS - replaced_seconds) * 1000).toISOString();
  if (json) printJson(io, { ...shown, previous_sessions_until: until });
  else {
    printText(io, describeCounts(rotation));
    const kept = settings.SECRETS_KEY === undefined ? previousKeyPath(settings.DATA_DIR) : 'SECRETS_KEY_PREVIOUS';
    printText(io, describeNext(rotation, kept, until));
  }
  const failures = rotation.previous_key_in_use
    ? ['A Weir process still encrypts with the previous key. Restart it with the new key, then run this command again.']
    : Object.entries(replacements).flatMap(([name, [what, fix]]) => {
        const { unreadable } = rotation.counts[name as keyof typeof replacements];
        return unreadable === 0 ? [] : [`${what} that no configured key can decrypt: ${unreadable}. ${fix}`];
      });
  if (failures.length > 0) throw new CommandError(json ? '' : failures.join('\n'));
}

/** How to replace what no key decrypts. Stored answers to repeated requests need no fix, since they expire. */
const replacements = {
  webhook_secrets: [
    'Webhook secrets',
    'weir doctor lists them; set the key that encrypted them, or set new secrets: weir webhook rotate ID',
  ],
  verify_tokens: [
    'Verify tokens of webhooks',
    'Set the key that encrypted them, or new ones: weir webhook update ID --verify-token TOKEN',
  ],
  cells: [
    'Connection strings of cells',
    'Set the key that encrypted them, or give each again: weir cell update NUMBER --database-file FILE',
  ],
} as const;

function describeCounts({ counts }: KeyRotation): string {
  return table(
    ['', 'STORED', 'RE-ENCRYPTED', 'ALREADY CURRENT', 'UNREADABLE'],
    Object.entries(counts).map(([name, { stored, reencrypted, already_current, unreadable }]) => [
      name.replace('_', ' '),
      ...[stored, reencrypted, already_current, unreadable],
    ]),
  );
}

function describeNext({ previous_key, previous_key_in_use }: KeyRotation, kept: string, until: string | null): string {
  if (previous_key === null) return 'There is no previous key, so there is nothing to re-encrypt.\n';
  if (previous_key_in_use) return '';
  const sessions = until === null ? '' : `Agent sessions signed with it are refused from ${until} on.\n`;
  return `The previous key is no longer needed: remove ${kept} and restart Weir. Older backups still need it.\n${sessions}`;
}
