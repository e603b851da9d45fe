/** Options that give the secret of a sender. */
import { CommandError, type CommandIo, readLine } from '../../../base/command/io.ts';

export interface SecretOptions {
  secret?: string;
  secretStdin?: boolean;
}

/** Throws CommandError for two sources of a secret. */
export function checkSecret({ secret, secretStdin }: SecretOptions): void {
  if (secret !== undefined && secretStdin) throw new CommandError('--secret and --secret-stdin exclude each other', 2);
}

/** The secret of --secret or --secret-stdin; null: neither was given. */
export async function givenSecret(io: CommandIo, { secret, secretStdin }: SecretOptions): Promise<string | null> {
  return secretStdin ? readLine(io) : (secret ?? null);
}
