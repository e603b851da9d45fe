import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printText, table } from '../../base/command/io.ts';
import { weirCommand } from '../../base/command/name.ts';
import { describePreset } from '../../manage/api/openapi/openapi-operations.ts';
import { handshakes } from '../../model/signatures/definition.ts';
import { presetNamed, presets } from '../../model/signatures/presets.ts';

/** `weir scheme list|show`: the signature schemes of senders. Needs neither settings nor a database. */
export function define(command: Command, io: CommandIo): void {
  command
    .command('list')
    .description('show all schemes')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) => {
      if (json) return printJson(io, { items: presets.map(describePreset) });
      const rows = presets.map((preset) => {
        const { name, title, key, definition } = describePreset(preset);
        return [name, title, key.replaceAll('_', ' '), definition.algorithm];
      });
      const shown = table(['NAME', 'SENDER', 'NEEDS', 'ALGORITHM'], rows);
      printText(
        io,
        `${shown}\nUse one: ${weirCommand()} webhook add --name NAME --scheme SCHEME --secret-stdin\nOr:      ${weirCommand()} webhook update ID --scheme SCHEME\n`,
      );
    });
  command
    .command('show')
    .description('show one scheme and how to set up its sender')
    .argument('<name>', 'name of the scheme')
    .option('--json', 'print one JSON document')
    .action((name: string, { json }: { json?: boolean }) => {
      const preset = presetNamed(name);
      if (preset === undefined)
        throw new CommandError(`No scheme has the name ${JSON.stringify(name)}; see: weir scheme list`);
      const scheme = describePreset(preset);
      if (json) return printJson(io, scheme);
      const steps = scheme.steps.map((step, i) => `  ${i + 1}. ${step}\n`);
      printText(io, `${scheme.title}\n${scheme.documentation}\n\nIn the sender:\n${steps.join('')}`);
      const facts = {
        Note: scheme.notes,
        Handshake: scheme.handshake && handshakes[scheme.handshake],
        'Response that it demands': scheme.demands,
        Retries: scheme.retries,
        'Event type': scheme.event_type,
        Definition: JSON.stringify(scheme.definition),
      };
      for (const [name, fact] of Object.entries(facts)) if (fact !== null) printText(io, `\n${name}: ${fact}\n`);
      if (scheme.public_key_definition !== null)
        printText(io, `With a public key: ${JSON.stringify(scheme.public_key_definition)}\n`);
    });
}
