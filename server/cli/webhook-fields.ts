/** Options of `weir webhook add|update` that set members of a webhook. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { CUSTOM } from '../signatures/presets.ts';
import { nullForNone, positive, seconds, secondsOrNone, wholeNumberOrNone } from './arguments.ts';
import { CommandError, type CommandIo } from './io.ts';

type Count = number | 'none';

export interface FieldOptions {
  description?: string;
  scheme?: string;
  schemeFile?: string;
  publicKey?: string;
  verifyToken?: string;
  toleranceSeconds?: Count;
  signatureHeader?: string;
  dedupeHeader?: string;
  eventTypeFrom?: string;
  rateLimit?: Count;
  maxPayloadBytes?: Count;
  retentionDays?: Count;
  expectEverySeconds?: Count;
}

/** @param change whether the command changes a webhook, so that options can also unset what they set */
export function addFieldOptions(command: Command, change: 'add' | 'update'): Command {
  const [count, time] = change === 'add' ? [positive, seconds] : [wholeNumberOrNone, secondsOrNone];
  const [text, number] = change === 'add' ? ['', ''] : ["; '' unsets it", '; none unsets it'];
  const usual = change === 'add' ? 'default' : "''";
  return command
    .option('--description <text>', 'what it is for')
    .option(
      '--scheme <name>',
      `how the sender signs, see \`weir scheme list\`${change === 'add' ? '; default: sha256' : ''}`,
    )
    .option('--scheme-file <file>', 'definition of the scheme custom, as JSON')
    .option('--public-key <key>', `the sender's public key (PEM, hex or base64), for schemes that have one${text}`)
    .option('--verify-token <token>', `token of the GET handshake with hub.challenge${text}`)
    .option(
      '--tolerance-seconds <seconds>',
      `how far the time of a request may be from the clock; 0: not checked${number}`,
      time,
    )
    .option('--signature-header <name>', `only this header carries the signature${text}`)
    .option('--dedupe-header <name>', `a request that repeats the value of this header is not stored again${text}`)
    .option(
      '--event-type-from <source>',
      `where the type of an event is: header:NAME, json:/POINTER, or two joined by +; ${usual}: as the scheme says; none: no types`,
    )
    .option('--rate-limit <requests>', `requests per window and client IP, for this webhook only${number}`, count)
    .option('--max-payload-bytes <bytes>', `less than WEBHOOK_MAX_PAYLOAD_BYTES${number}`, count)
    .option('--retention-days <days>', `less than RETENTION_DAYS${number}`, count)
    .option('--expect-every-seconds <seconds>', `an alert begins when the last event is older${number}`, count);
}

/** Members as the API takes them; undefined: the option was not given. Throws CommandError when --scheme-file cannot be read. */
export async function fieldsOf(io: CommandIo, options: FieldOptions) {
  const { scheme, schemeFile } = options;
  return {
    description: options.description,
    signature_scheme: scheme ?? (schemeFile === undefined ? undefined : CUSTOM),
    scheme_definition: schemeFile === undefined ? undefined : await readDefinition(schemeFile, io),
    public_key: options.publicKey,
    verify_token: options.verifyToken,
    tolerance_seconds: nullForNone(options.toleranceSeconds),
    signature_header: options.signatureHeader,
    dedupe_header: options.dedupeHeader,
    event_type_from: options.eventTypeFrom,
    rate_limit_max: nullForNone(options.rateLimit),
    max_payload_bytes: nullForNone(options.maxPayloadBytes),
    retention_days: nullForNone(options.retentionDays),
    expect_every_seconds: nullForNone(options.expectEverySeconds),
  };
}

/** Like fieldsOf, for a change: an empty text unsets a member, and a scheme that is not custom its definition. */
export async function changesOf(io: CommandIo, options: FieldOptions) {
  const fields = await fieldsOf(io, options);
  const { description, signature_scheme: scheme, ...others } = fields;
  const unset = Object.entries(others).map(([name, value]) => [name, value === '' ? null : value]);
  const isPreset = scheme !== undefined && scheme !== CUSTOM && options.schemeFile === undefined;
  const definition = isPreset ? { scheme_definition: null } : {};
  return { description, signature_scheme: scheme, ...Object.fromEntries(unset), ...definition };
}

/** Reads the file of --scheme-file; the input schema checks what it holds. */
async function readDefinition(file: string, io: CommandIo): Promise<unknown> {
  try {
    return JSON.parse(await readFile(resolve(io.directory, file), 'utf8'));
  } catch (error) {
    throw new CommandError(`${file} cannot be read as JSON: ${(error as Error).message}.`, 2);
  }
}
